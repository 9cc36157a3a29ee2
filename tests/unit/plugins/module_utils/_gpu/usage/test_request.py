# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes and times with their units, and refused requests."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.request import (
    memory_mib,
    problems,
    seconds,
)
from hypothesis import given
from hypothesis import strategies as st

GOOD: Any = {
    "interval_s": 15,
    "keep_days": 400,
    "idle_memory": "1GiB",
    "idle_after": "2h",
    "textfile_directory": "/var/lib/prometheus/node-exporter",
}


@pytest.mark.parametrize(
    ("text", "mib"), [("18 GiB", 18432), ("512MiB", 512), ("1.5G", 1536), ("0 MiB", 0), ("2 gib", 2048)]
)
def test_size(text: str, mib: int) -> None:
    assert memory_mib(text) == mib


@pytest.mark.parametrize(
    ("text", "number"), [("90min", 5400), ("2h", 7200), ("1.5 h", 5400), ("1d", 86400), ("never", 0)]
)
def test_time(text: str, number: int) -> None:
    assert seconds(text) == number


@pytest.mark.parametrize(
    "text", ["", "18", "18 GB", "18 h", "-1 GiB", "GiB", "1e9 GiB", "1GiB 2GiB", "9" * 400 + " GiB"]
)
def test_wrong_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no size"):
        memory_mib(text)


@pytest.mark.parametrize("text", ["", "2", "2 GiB", "-2h", "2 hours", "h", "always", "2h30m", "9" * 400 + "h"])
def test_wrong_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no time"):
        seconds(text)


def test_good_request_has_no_problem() -> None:
    assert problems(GOOD) == []
    assert problems(GOOD | {"idle_after": "never", "textfile_directory": ""}) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("interval_s", 4),
        ("interval_s", 301),
        ("keep_days", 30),
        ("keep_days", 100_000),
        ("idle_memory", "2h"),
        ("idle_after", "18 GiB"),
        ("idle_after", "59s"),
        ("textfile_directory", "relative"),
        ("textfile_directory", "/with space"),
        ("textfile_directory", "/percent%n"),
        ("textfile_directory", "/end/"),
    ],
)
def test_problem_names_variable_and_remedy(name: str, value: Any) -> None:
    (found,) = problems(GOOD | {name: value})
    assert found["variable"] == f"gpu_usage_{name}"
    assert found["problem"] and found["remedy"]


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (memory_mib, seconds):
        with contextlib.suppress(ValueError):
            assert read(text) >= 0

# SPDX-License-Identifier: GPL-3.0-or-later
"""Ages, sizes and rates as people read them, and when a source is stale."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._status import model
from ansible_collections.rigwright.workstation.plugins.module_utils._status.model import Row, Section, View

NOW = 1_764_076_800.0


def test_source_without_a_limit_is_never_stale() -> None:
    assert model.stale(Section("Machine"), NOW) == ""


def test_clock_step_is_no_fresh_source() -> None:
    assert model.stale(Section("GPUs", time=NOW + 3600, limit_s=45), NOW) == "time in the future"
    assert model.stale(Section("GPUs", time=NOW + 5, limit_s=45), NOW) == ""


def test_failures_are_counted() -> None:
    rows = (Row("a", level=model.FAIL), Row("b", level=model.WARN), Row("c"))
    assert model.problems(View("ws1", NOW, (Section("Upkeep", rows), Section("GPUs", rows)))) == 2


@pytest.mark.parametrize(("size", "shown"), [(-1, "0.0"), (3 << 29, "1.5"), (140 << 30, "140")])
def test_size_is_in_gib(size: float, shown: str) -> None:
    assert model.gib(size) == shown


@pytest.mark.parametrize(("share", "shown"), [(-1, "0%"), (0.934, "93%"), (1e300, "999%")])
def test_percent_is_bounded(share: float, shown: str) -> None:
    assert model.percent(share) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7200, "2 h"),
        (172800, "2 d"),
        (1e300, "100 y"),
    ],
)
def test_duration_has_one_unit(seconds: float, shown: str) -> None:
    assert model.duration(seconds) == shown


@pytest.mark.parametrize(
    ("size", "shown"), [(0, "0 B/s"), (1234, "1.2 kB/s"), (123_456_789, "123 MB/s"), (2e9, "2.0 GB/s")]
)
def test_rate_has_three_digits(size: float, shown: str) -> None:
    assert model.rate(size) == shown

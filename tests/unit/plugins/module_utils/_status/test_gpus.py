# SPDX-License-Identifier: GPL-3.0-or-later
"""The snapshot of the GPUs: another user's file, of which nothing is trusted."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._status import gpus, model, text
from ansible_collections.rigwright.workstation.plugins.module_utils._status.model import View
from ansible_collections.rigwright.workstation.plugins.module_utils._system import gpu_snapshot
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.support.gpu.snapshot import GPU, NOW, PROCESS


def content(**changes: Any) -> bytes:
    base = {
        "format": 1,
        "time": NOW,
        "interval_s": 15,
        "host": "ws1",
        "driver": "580.95.05",
        "problem": "",
        "gpus": [GPU],
    }
    return json.dumps({**base, **changes}).encode()


def rows(**changes: Any) -> list[tuple[str, tuple[str, ...]]]:
    return [
        (row.label, row.values) for row in gpus.section(gpu_snapshot.parse(content(**changes), strict=False), NOW).rows
    ]


def test_gpu_and_its_user_are_shown() -> None:
    assert rows() == [
        ("0 H200", ("93%", "18.0/140 GiB", "alice", "61 C", "512/700 W")),
        ("  alice", ("18.0 GiB", "python", "container train", "90%", "since 2 h")),
    ]


def test_idle_gpu_is_free_and_counted() -> None:
    section = gpus.section(
        gpu_snapshot.parse(content(gpus=[GPU, {**GPU, "index": 1, "processes": []}]), strict=False), NOW
    )
    assert "free" in section.rows[-1].values
    assert section.rows[0].brief == "1 of 2 GPUs free"


def test_unknown_values_are_left_out() -> None:
    unknown = {**GPU, **dict.fromkeys(("utilization_percent", "temperature_c", "power_w", "power_limit_w"))}
    process = {**PROCESS, "user": "", "kind": "unknown", "name": "", "share_percent": None, "idle_s": 7200}
    assert rows(gpus=[{**unknown, "processes": [process]}]) == [
        ("0 H200", ("18.0/140 GiB", "unknown")),
        ("  unknown", ("18.0 GiB", "python", "unknown", "idle 2 h", "since 2 h")),
    ]


def test_problem_of_the_driver_comes_first() -> None:
    section = gpus.section(gpu_snapshot.parse(content(problem="NVML does not answer", gpus=[]), strict=False), NOW)
    assert [(row.label, row.values, row.level) for row in section.rows] == [
        ("driver", ("NVML does not answer",), model.FAIL)
    ]


def test_stale_after_three_intervals() -> None:
    section = gpus.section(gpu_snapshot.parse(content(interval_s=15), strict=False), NOW)
    assert (model.stale(section, NOW + 45), model.stale(section, NOW + 46)) == ("", "stale 46 s")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b"", "half written"),
        (content()[:-40], "half written"),
        (b"\xff\xfe", "half written"),
        (b"[" * 100_000, "half written"),
        (b"[]", "is no object"),
        (content(format=2), "has format 2, and this program reads 1"),
        (content(format="x" * 500), "has format 'xxxxxxxxxxxxxxxxxx~,"),
        (content(format=True), "has format True"),
        (b"{}", "has format None"),
        (content(time="now"), "has no time"),
        (content(time=float("nan")), "NaN"),
        (content(time=10**20), "has no time"),
        (content(time=10**400), "digits"),
        (content(gpus={}), "no list of GPUs"),
    ],
)
def test_unusable_content_is_refused(bad: bytes, message: str) -> None:
    with pytest.raises(gpu_snapshot.Unusable, match=message):
        gpu_snapshot.parse(bad, strict=False)


@pytest.mark.parametrize("interval", [0, -1, "x", None, True, 1e300])
def test_interval_is_bounded(interval: Any) -> None:
    assert 0 < gpu_snapshot.parse(content(interval_s=interval), strict=False)["interval_s"] <= 3600


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda each: st.lists(each, max_size=4) | st.dictionaries(st.sampled_from([*GPU, *PROCESS]), each, max_size=6),
    max_leaves=30,
)


@given(st.lists(st.dictionaries(st.sampled_from([*GPU]), anything, max_size=10) | anything, max_size=4), anything)
def test_values_of_any_type_are_shown_or_left_out(rows: list[Any], other: Any) -> None:
    # JSON of others has no NaN and no endless number: that is refused before.
    snapshot = gpu_snapshot.parse(content(gpus=rows, host=other, problem=other, interval_s=other), strict=False)
    view = View("ws1", NOW, (gpus.section(snapshot, NOW),))
    assert text.plain(view, 80, 24)


def test_missing_file_names_the_role(tmp_path: Path) -> None:
    found = gpus.of_file(str(tmp_path / "snapshot.json"), NOW)
    assert [row.values for row in found.rows] == [("no GPU snapshot: role gpu_usage is not set up",)]


def test_link_fifo_and_large_file_are_left_unread(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    path.symlink_to("/etc/shadow")
    with pytest.raises(gpu_snapshot.Unusable, match="link or no regular file"):
        gpu_snapshot.read(str(path))
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(gpu_snapshot.Unusable, match="no regular file"):
        gpu_snapshot.read(str(path))
    path.unlink()
    path.write_bytes(b" " * (gpu_snapshot.LIMIT + 1))
    with pytest.raises(gpu_snapshot.Unusable, match="is larger than"):
        gpu_snapshot.read(str(path))

# SPDX-License-Identifier: GPL-3.0-or-later
"""The snapshot: what its readers accept, and when it is stale."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import snapshot

PROCESS = {
    "pid": 4711,
    "user": "alice",
    "uid": 1000,
    "kind": "ssh",
    "name": "",
    "command": "python3",
    "memory_mib": 18000,
    "share_percent": 90,
    "started": 1764070000.0,
    "idle_s": 0,
}
GPU = {
    "index": 0,
    "uuid": "GPU-1",
    "name": "NVIDIA H200",
    "memory_total_mib": 143771,
    "memory_used_mib": 18000,
    "utilization_percent": 93,
    "temperature_c": None,
    "power_w": 512.3,
    "power_limit_w": 700.0,
    "processes": [PROCESS],
}
HEADER: dict[str, Any] = {"time": 1764076800.0, "interval_s": 15, "host": "ws1", "driver": "580.95.05", "problem": ""}


def changed(path: str, value: Any) -> str:
    """Return a snapshot with another value at a path, such as `gpus.0.name`."""
    content = json.loads(snapshot.as_text(HEADER, [GPU]))
    place: Any = content
    *parents, last = path.split(".")
    for part in parents:
        place = place[int(part) if part.isdecimal() else part]
    place[last] = value
    return json.dumps(content)


def test_what_is_written_is_read() -> None:
    assert snapshot.from_text(snapshot.as_text(HEADER, [{**GPU, "energy_j": 5}])) == {**HEADER, "gpus": [GPU]}


def test_unknown_fields_are_ignored() -> None:
    assert "new" not in snapshot.from_text(changed("new", 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read"),
        (snapshot.as_text(HEADER, [GPU])[:200], "cannot be read"),
        ("[]", "is no object"),
        ("{}", "has format None, and this program reads 1"),
        (changed("format", 2), "has format 2, and this program reads 1"),
        (changed("time", "now"), "the snapshot has no time of the right type"),
        (changed("time", True), "no time of the right type"),
        (changed("gpus", {}), "no gpus of the right type"),
        (changed("gpus", [1]), "a GPU of the snapshot is no object"),
        (changed("gpus.0.name", 1), "a GPU of the snapshot has no name"),
        (changed("gpus.0.processes", [None]), "a process of the snapshot"),
        (changed("gpus.0.processes.0.memory_mib", "18 GiB"), "no memory_mib of the right type"),
    ],
)
def test_damaged_snapshot_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        snapshot.from_text(text)


def test_snapshot_is_stale_after_three_intervals() -> None:
    assert not snapshot.is_stale(HEADER, HEADER["time"] + 45)
    assert snapshot.is_stale(HEADER, HEADER["time"] + 46)
    assert not snapshot.is_stale(HEADER, HEADER["time"] - 3600)


def test_snapshot_of_many_processes_stays_small() -> None:
    rows = [{**PROCESS, "pid": pid, "name": "x" * 200, "memory_mib": pid} for pid in range(6000)]
    text = snapshot.as_text(HEADER, [{**GPU, "processes": rows}])
    assert len(text) < snapshot.LIMIT
    kept = [row["pid"] for row in snapshot.from_text(text)["gpus"][0]["processes"]]
    assert len(kept) > 1000 and max(kept) == 5999

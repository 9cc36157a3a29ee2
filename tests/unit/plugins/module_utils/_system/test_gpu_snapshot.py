# SPDX-License-Identifier: GPL-3.0-or-later
"""The snapshot: what its readers accept, and when it is stale."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._system import gpu_snapshot

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
HEADER: Any = {"time": 1764076800.0, "interval_s": 15, "host": "ws1", "driver": "580.95.05", "problem": ""}


def changed(path: str, value: Any) -> str:
    """Return a snapshot with another value at a path, such as `gpus.0.name`."""
    content = json.loads(gpu_snapshot.as_text(HEADER, [GPU]))
    place: Any = content
    *parents, last = path.split(".")
    for part in parents:
        place = place[int(part) if part.isdecimal() else part]
    place[last] = value
    return json.dumps(content)


def test_what_is_written_is_read() -> None:
    assert gpu_snapshot.parse(gpu_snapshot.as_text(HEADER, [{**GPU, "energy_j": 5}])) == {**HEADER, "gpus": [GPU]}


def test_unknown_fields_are_ignored() -> None:
    assert "new" not in gpu_snapshot.parse(changed("new", 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "half written"),
        (gpu_snapshot.as_text(HEADER, [GPU])[:200], "half written"),
        ("[]", "is no object"),
        ("{}", "has format None, and this program reads 1"),
        (changed("format", 2), "has format 2, and this program reads 1"),
        (changed("time", "now"), "the GPU snapshot has no time of the right type"),
        (changed("time", True), "no time of the right type"),
        (changed("gpus", {}), "no gpus of the right type"),
        (changed("gpus", [1]), "a GPU of the GPU snapshot is no object"),
        (changed("gpus.0.name", 1), "a GPU of the GPU snapshot has no name"),
        (changed("gpus.0.processes", [None]), "a process of the GPU snapshot"),
        (changed("gpus.0.processes.0.memory_mib", "18 GiB"), "no memory_mib of the right type"),
        (changed("gpus.0.processes.0.memory_mib", -1), "no memory_mib of the right type"),
        (changed("gpus.0.processes.0.pid", True), "no pid of the right type"),
        (changed("gpus.0.processes.0.pid", 1.5), "no pid of the right type"),
        (changed("gpus.0.processes.0.idle_s", 10**16), "no idle_s of the right type"),
        (changed("gpus.0.power_w", float("nan")), "NaN"),
        (changed("interval_s", 0), "no interval_s of the right type"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
    ],
)
def test_damaged_snapshot_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gpu_snapshot.parse(text)


def test_display_leaves_out_what_is_wrong() -> None:
    content = json.loads(changed("gpus.0.memory_used_mib", -1))
    content["gpus"][0]["processes"] += [None, {}]
    content["gpus"] += [1]
    del content["host"]
    found = gpu_snapshot.parse(json.dumps(content), strict=False)
    assert (found["host"], len(found["gpus"]), found["gpus"][0]["memory_used_mib"]) == (None, 1, None)
    assert found["gpus"][0]["processes"] == [PROCESS, dict.fromkeys(PROCESS)]


@pytest.mark.parametrize("strict", [True, False])
def test_text_of_others_is_printable_and_short(strict: bool) -> None:
    found = gpu_snapshot.parse(changed("gpus.0.name", "\x1b[2J\u202e\ud800" + "x" * 5000), strict)
    assert found["gpus"][0]["name"] == "?[2J??" + "x" * 193 + "~"


def test_snapshot_is_stale_after_three_intervals() -> None:
    assert not gpu_snapshot.is_stale(HEADER, HEADER["time"] + 45)
    assert gpu_snapshot.is_stale(HEADER, HEADER["time"] + 46)


def test_snapshot_of_the_future_is_stale() -> None:
    """The sampler that wrote it before the clock was set back has written nothing since."""
    assert not gpu_snapshot.is_stale(HEADER, HEADER["time"] - 45)
    assert gpu_snapshot.is_stale(HEADER, HEADER["time"] - 3600)


def test_snapshot_of_many_processes_stays_small() -> None:
    rows = [{**PROCESS, "pid": pid, "name": "x" * 200, "memory_mib": pid} for pid in range(6000)]
    text = gpu_snapshot.as_text(HEADER, [{**GPU, "processes": rows}])
    assert len(text) < gpu_snapshot.LIMIT
    kept = [row["pid"] or 0 for row in gpu_snapshot.parse(text)["gpus"][0]["processes"]]
    assert len(kept) > 1000 and max(kept) == 5999

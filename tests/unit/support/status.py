# SPDX-License-Identifier: GPL-3.0-or-later
"""The host that docs/status.md shows: two H200 of three users, a tunnel, backups, and a disk that is almost full."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._status import gpus, model
from ansible_collections.rigwright.workstation.plugins.module_utils._status.model import Row, Section, View
from ansible_collections.rigwright.workstation.plugins.module_utils._system import gpu_snapshot

NOW = 1_764_076_800.0


def process(user: str, kind: str, command: str, memory_mib: int, hours: float, **more: Any) -> dict[str, Any]:
    started = NOW - 3600 * hours
    return {"user": user, "kind": kind, "command": command, "memory_mib": memory_mib, "started": started, **more}


def gpu(index: int, used_mib: int, busy: int, heat: int, power: float, *processes: dict[str, Any]) -> dict[str, Any]:
    return {
        "index": index,
        "name": "NVIDIA H200",
        "memory_total_mib": 143_771,
        "memory_used_mib": used_mib,
        "utilization_percent": busy,
        "temperature_c": heat,
        "power_w": power,
        "power_limit_w": 700.0,
        "processes": [*processes],
    }


GPUS = [
    gpu(0, 120_230, 97, 68, 655.4, process("alice", "slurm", "python", 120_000, 9.5, name="4711", share_percent=97)),
    gpu(
        1,
        31_000,
        40,
        52,
        310.0,
        process("bob", "container", "vllm", 22_528, 30, name="chat", share_percent=40),
        process("carol", "jupyter", "python", 8_192, 5, idle_s=7_500),
    ),
]
MACHINE = (
    Row("CPU", ("31%", "load 19.85", "64 threads"), share=0.31, brief="load 19.85"),
    Row("memory", ("42%", "211/503 GiB"), share=0.42, brief="memory 42%"),
    Row("/", ("61%", "168 GiB free"), share=0.61, brief="/ 61%"),
    Row("/data", ("93%", "254 GiB free"), share=0.93, level=model.WARN, brief="/data 93%"),
    Row("/fast", ("48%", "1822 GiB free", "data set cache"), share=0.48, rank=model.USUAL),
    Row("enp65s0", ("192.0.2.17", "in 112 MB/s", "out 1.4 MB/s")),
)
UPKEEP = (
    Row("tunnel", ("up", "since 12 d")),
    Row("backup", ("9 h ago", "2 jobs"), time=NOW - 9 * 3600, limit_s=36 * 3600, brief="backup 9 h ago"),
    Row("restore drill", ("11 d ago", "2 jobs"), time=NOW - 11 * 86400, limit_s=45 * 86400),
    Row("GPU health", ("PASS", "4 min ago"), time=NOW - 240, limit_s=1860),
    Row("reboot", ("required", "linux-image-amd64"), level=model.WARN, brief="reboot required"),
    Row("package lists", ("fetched 7 h ago",), rank=model.DETAIL),
)


def example(age_s: float = 5) -> View:
    """Return the view of the example; the snapshot of its GPUs has this age."""
    snapshot = {"format": 1, "time": NOW - age_s, "interval_s": 15, "host": "ws1", "problem": "", "gpus": GPUS}
    graphics = gpus.section(gpu_snapshot.parse(json.dumps(snapshot), strict=False), NOW)
    return View("ws1", NOW, (graphics, Section("Machine", MACHINE), Section("Upkeep", UPKEEP)), 1_036_800.0)

# SPDX-License-Identifier: GPL-3.0-or-later
"""A GPU and a process on it, as the snapshot of the role gpu_usage has them."""

from __future__ import annotations

from typing import Any

NOW = 1_764_076_800.0
PROCESS: dict[str, Any] = {
    "pid": 4711,
    "user": "alice",
    "uid": 1000,
    "kind": "container",
    "name": "train",
    "command": "python",
    "memory_mib": 18432,
    "share_percent": 90,
    "started": NOW - 7200,
    "idle_s": 0,
}
GPU: dict[str, Any] = {
    "index": 0,
    "uuid": "GPU-1",
    "name": "NVIDIA H200",
    "memory_total_mib": 143771,
    "memory_used_mib": 18432,
    "utilization_percent": 93,
    "temperature_c": 61,
    "power_w": 512.3,
    "power_limit_w": 700.0,
    "processes": [PROCESS],
}

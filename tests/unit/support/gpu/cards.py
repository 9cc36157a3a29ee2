# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of cards, as _gpu.state.read_card() returns them."""

from __future__ import annotations

import copy
from typing import Any

ADDRESS = "0000:41:00.0"
UUID = "GPU-00000041-0000-0000-0000-000000000000"

WELL: dict[str, Any] = {
    "index": 0,
    "uuid": UUID,
    "name": "NVIDIA H200",
    "pci_address": ADDRESS,
    "memory": {"total_bytes": 150_000_000_000, "used_bytes": 0},
    "pcie": {"max_generation": 5, "max_width": 16, "current_generation": 5, "current_width": 16},
    "nvlink": {"count": 2, "active": 2, "links": [{"link": 0, "active": True}, {"link": 1, "active": True}]},
    "power": {"draw_w": 75.5},
    "clocks": {"event_reasons": ["idle"]},
    "temperature": {
        "gpu_c": 34,
        "memory_c": 40,
        "margin_c": 50,
        "thresholds_c": {"shutdown": 100, "slowdown": 95, "memory_max": 105, "gpu_max": 90},
    },
    "utilization": {"gpu_percent": 0, "memory_percent": 0},
    "counters": {
        "recovery_action": "none",
        "remapped_rows": {"correctable": 0, "uncorrectable": 0, "pending": False, "failure": False},
        "retired_pages": None,
        "ecc_errors": {
            "volatile": {"corrected": 0, "uncorrected": 0},
            "aggregate": {"corrected": 0, "uncorrected": 0},
        },
        "sram": {"aggregate_uncorrectable": 0, "volatile_uncorrectable": 0, "threshold_exceeded": False},
        "repair_pending": {"channel": False, "tpc": False},
        "unrepairable_memory": False,
        "pcie": {"replays": 0},
        "nvlink": {"replays": 0, "recoveries": 0, "crc_errors": 0},
        "throttled": {"sw_thermal_ns": 0, "hw_thermal_ns": 0, "power_brake_ns": 0},
    },
    "processes": [],
    "unreadable": [],
    "problem": None,
}


def card(**signs: Any) -> Any:
    """Return the facts of a healthy card with changes: `card(counters__remapped_rows__failure=True)`."""
    facts = copy.deepcopy(WELL)
    for path, value in signs.items():
        *parents, last = path.split("__")
        place = facts
        for parent in parents:
            place[parent] = place.get(parent) or {}
            place = place[parent]
        place[last] = value
    return facts

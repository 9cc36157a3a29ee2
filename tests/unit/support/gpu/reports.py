# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of cards, events of the measuring program, and samples of NVML, for tests of gpu_accept."""

from __future__ import annotations

import copy
from typing import Any

Facts = Any

COUNTERS: Facts = {
    "recovery_action": "none",
    "remapped_rows": {"correctable": 0, "uncorrectable": 0, "pending": False, "failure": False},
    "retired_pages": None,
    "ecc_errors": {scope: {"corrected": 0, "uncorrected": 0} for scope in ("volatile", "aggregate")},
    "sram": {"aggregate_uncorrectable": 0, "volatile_uncorrectable": 0, "threshold_exceeded": False},
    "repair_pending": {"channel": False, "tpc": False},
    "unrepairable_memory": False,
    "pcie": {"replays": 3, "correctable_errors": 0, "fatal_errors": 0, "non_fatal_errors": 0},
    "nvlink": {"replays": 0, "recoveries": 0, "crc_errors": 0},
}


def card(**changes: Any) -> Facts:
    """Return the facts of a healthy H200 with changes."""
    return {
        "index": 0,
        "uuid": "GPU-8f2c1a90-5d3e-4b7a-9c61-2e0f4d7b8a15",
        "name": "NVIDIA H200",
        "pci_address": "0000:41:00.0",
        "brand": "nvidia",
        "compute_capability": "9.0",
        "driver": "580.159.04",
        "compute": {"sm_count": 132},
        "memory": {"bus_width_bits": 6016},
        "pcie": {"max_generation": 5, "max_width": 16},
        "power": {"enforced_limit_w": 700, "default_limit_w": 700},
        "clocks": {"max_mhz": {"sm": 1980, "memory": 3201}, "locked_mhz": None},
        "modes": {"mig": {"current": False}, "compute_mode": "default"},
        "counters": copy.deepcopy(COUNTERS),
        "problem": None,
        **changes,
    }


def sample(at: float, **changes: Any) -> Facts:
    return {
        "at": at,
        "clock_mhz": 1700,
        "memory_clock_mhz": 3201,
        "power_w": 690.0,
        "temperature_c": 60,
        "reasons": ["sw_power_cap"],
        "pcie_generation": 5,
        "pcie_width": 16,
        **changes,
    }


def samples(**changes: Any) -> list[Facts]:
    """Return ten samples a second for the windows of `events`."""
    return [sample(number / 10, **changes) for number in range(400)]


# Figures of an H200: products of random data, a copy, and PCIe 5 x16.
HEALTHY = {
    "matmul_bf16": 780.0,
    "matmul_fp16": 780.0,
    "matmul_fp32": 50.0,
    "matmul_tf32": 390.0,
    "matmul_fp8": 1400.0,
    "matmul_fp64": 50.0,
    "copy": 4300.0,
    "h2d": 54.0,
    "d2h": 53.0,
    "h2d_d2h": 90.0,
}


def events(**values: float) -> list[Facts]:
    """Return three windows of a second for each test; *values* replace those of a healthy card."""
    found: list[Facts] = [{"event": "started", "torch": "2.11.0+cu130", "side": 8192}]
    for number, (test, value) in enumerate({**HEALTHY, **values}.items()):
        unit = "tflops" if test.startswith("matmul") else "gb_s"
        if unit == "tflops":
            found.append({"event": "checksum", "test": test, "sha256": f"sum of {test}", "error": 0.0017})
        for window in range(3):
            begun = float(number * 3 + window)
            found.append(
                {
                    "event": "window",
                    "test": test,
                    "from": begun,
                    "to": begun + 0.95,
                    "value": value,
                    "unit": unit,
                    "wrong": 0,
                }
            )
    return [*found, {"event": "did", "step": "measure"}, {"event": "done"}]


REQUEST: Facts = {
    "warm_up_s": 30.0,
    "window_s": 10.0,
    "windows": 3,
    "burn_in_s": 0,
    "memory_share": 0.9,
    "dtypes": ["bf16", "fp16", "fp32", "tf32", "fp8", "fp64"],
    "seed": 6,
}

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts of a GPU that only gpu_info needs: engines, traffic, energy, BAR1, use by process, errors by place. Unknown is null, never 0."""

from __future__ import annotations

import ctypes

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import nvml as gpu_nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import state as gpu_state
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.card_facts import Facts
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card, Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.processes import Use
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.reader import Reader, first, scaled

# Numbers: nvml.h of CUDA 13 (nvidia-ml-py 13.615).
ENGINES = {"encoder": "Encoder", "decoder": "Decoder", "jpeg": "Jpg", "ofa": "Ofa"}
# nvmlPcieUtilCounter_t
SENT, RECEIVED = 0, 1
# nvmlMemoryLocation_t. A card has some of them, by its generation.
LOCATIONS = {
    "l1_cache": 0,
    "l2_cache": 1,
    "dram": 2,
    "register_file": 3,
    "texture_memory": 4,
    "texture_shared_memory": 5,
    "cbu": 6,
    "sram": 7,
}
_SCOPES = {"volatile": 0, "aggregate": 1}
_ERRORS = {"corrected": 0, "uncorrected": 1}
SW_POWER_CAP, SYNC_BOOST = 74, 76
# Payload in KiB since the driver was loaded, over all links.
NVLINK_SENT, NVLINK_RECEIVED = 138, 139
ALL_LINKS = 0xFFFFFFFF
# The most samples of processes that the driver keeps.
SAMPLES = 4096


def read_card(nvml: Nvml | None, card: Card, tree: Tree | None = None) -> Facts:
    """Read the facts of one GPU as :func:`_gpu.state.read_card` does, with the details."""
    facts = gpu_state.read_card(nvml, card, tree)
    reader = Reader(nvml, card)
    use = _use_by_process(reader)
    facts["memory"]["bar1"] = _bar1(reader)
    facts["pcie"].update(_traffic(reader))
    if facts["nvlink"]:
        sent, received = reader.fields([(NVLINK_SENT, ALL_LINKS), (NVLINK_RECEIVED, ALL_LINKS)])
        facts["nvlink"]["sent_kib"], facts["nvlink"]["received_kib"] = sent, received
    facts["power"]["energy_j"] = scaled(reader.ask("nvmlDeviceGetTotalEnergyConsumption"), 1000)
    clocks = facts["clocks"]
    clocks["application_mhz"] = _application_clocks(reader, "nvmlDeviceGetApplicationsClock")
    clocks["default_application_mhz"] = _application_clocks(reader, "nvmlDeviceGetDefaultApplicationsClock")
    facts["utilization"].update(
        {
            f"{name}_percent": first(reader.ask(f"nvmlDeviceGet{function}Utilization"))
            for name, function in ENGINES.items()
        }
    )
    counters = facts["counters"]
    counters["ecc_locations"] = _ecc_locations(reader)
    counters["sram"] = counters["sram"] and {**counters["sram"], **_sram_split(reader)}
    cap, boost = reader.fields([SW_POWER_CAP, SYNC_BOOST])
    counters["throttled"].update({"sw_power_cap_ns": cap, "sync_boost_ns": boost})
    if facts["processes"]:
        facts["processes"] = [{**row, **(use or {}).get(row["pid"], NO_USE)} for row in facts["processes"]]
    facts["unreadable"] += reader.unreadable
    if reader.problem and not facts["problem"]:
        facts["problem"] = reader.problem.as_result()
    return facts


def _bar1(reader: Reader) -> dict[str, int] | None:
    """Read the window through which the host and other devices reach the memory."""
    window = reader.ask("nvmlDeviceGetBAR1MemoryInfo")
    return window and {
        "total_bytes": window.bar1Total,
        "used_bytes": window.bar1Used,
        "free_bytes": window.bar1Free,
    }


def _traffic(reader: Reader) -> dict[str, int | None]:
    """Read the PCIe traffic of the last 20 ms, from the side of the GPU."""
    return {
        "sent_kb_s": reader.ask("nvmlDeviceGetPcieThroughput", SENT),
        "received_kb_s": reader.ask("nvmlDeviceGetPcieThroughput", RECEIVED),
    }


def _application_clocks(reader: Reader, function: str) -> dict[str, int | None]:
    return {name: reader.ask(function, gpu_state.CLOCKS[name]) for name in ("graphics", "memory")}


def _ecc_locations(reader: Reader) -> dict[str, dict[str, dict[str, int | None] | None]]:
    """Read the errors by place; None for a place that the card does not count."""

    def of(scope: int, location: int) -> dict[str, int | None] | None:
        found = {
            name: reader.ask("nvmlDeviceGetMemoryErrorCounter", error, scope, location)
            for name, error in _ERRORS.items()
        }
        return None if all(value is None for value in found.values()) else found

    return {
        scope: {name: of(number, location) for name, location in LOCATIONS.items()} for scope, number in _SCOPES.items()
    }


def _sram_split(reader: Reader) -> dict[str, object]:
    status = gpu_nvml.pynvml.c_nvmlEccSramErrorStatus_v1_t()
    filled = reader.fill("nvmlDeviceGetSramEccErrorStatus", status)

    def value(name: str) -> int | None:
        return getattr(status, name) if filled else None

    return {
        **{
            f"{scope}_{name}": value(f"{scope}{suffix}")
            for scope in _SCOPES
            for name, suffix in (("corrected", "Cor"), ("parity", "UncParity"), ("secded", "UncSecDed"))
        },
        # Uncorrectable errors over the card's life.
        "sources": {
            name: value(f"aggregateUncBucket{suffix}")
            for name, suffix in (
                ("l2", "L2"),
                ("sm", "Sm"),
                ("pcie", "Pcie"),
                ("microcontroller", "Mcu"),
                ("other", "Other"),
            )
        },
    }


NO_USE: Use = {"sm_percent": None, "memory_percent": None, "encoder_percent": None, "decoder_percent": None}


def _use_by_process(reader: Reader) -> dict[int, Use] | None:
    """Read the latest sample of each process. The binding cannot do it: it takes an answer without samples for an error."""
    if gpu_nvml.pynvml is None:
        return None
    rows = (gpu_nvml.pynvml.c_nvmlProcessUtilizationSample_t * SAMPLES)()
    count = ctypes.c_uint(SAMPLES)
    if not reader.call("nvmlDeviceGetProcessUtilization", rows, ctypes.byref(count), ctypes.c_ulonglong(0)):
        return None
    latest = sorted(rows[: count.value], key=lambda row: row.timeStamp)
    return {
        row.pid: {
            "sm_percent": row.smUtil,
            "memory_percent": row.memUtil,
            "encoder_percent": row.encUtil,
            "decoder_percent": row.decUtil,
        }
        for row in latest
    }

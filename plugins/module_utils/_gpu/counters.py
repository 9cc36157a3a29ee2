# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The error counters of a GPU: rows, pages, ECC, links, throttling, and the recovery action of its driver."""

from __future__ import annotations

import ctypes
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.card_facts import (
    Counters,
    RemappedRows,
    RetiredPages,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.reader import Reader, first, flag, named

# Fields and numbers: nvml.h of CUDA 13 (nvidia-ml-py 13.615).
RECOVERY_ACTION = 230
RECOVERY_ACTIONS = {
    0: "none",
    1: "reset",
    2: "reboot",
    3: "drain_p2p",
    4: "drain_and_reset",
    5: "recover_imex_domain",
    6: "bus_reset",
    7: "system_reboot",
}
PCIE_FIELDS = {
    "replays": 94,
    "replay_rollovers": 95,
    "correctable_errors": 173,
    "naks_received": 174,
    "receiver_errors": 175,
    "bad_tlps": 176,
    "naks_sent": 177,
    "bad_dllps": 178,
    "non_fatal_errors": 179,
    "fatal_errors": 180,
    "unsupported_requests": 181,
    "lcrc_errors": 182,
    "lane_errors": 183,
}
# Since the driver was loaded.
THROTTLE_FIELDS = {"sw_thermal_ns": 269, "hw_thermal_ns": 270, "power_brake_ns": 271}
# Sums over all links; with a link as its scope, NVML counts that link.
NVLINK_FIELDS = {"replays": 161, "recoveries": 162, "crc_errors": 163}
# NVLink 5 (Blackwell) has other counters. With the scope _ALL_LINKS, NVML adds them up over all links.
NVLINK5_FIELDS = {
    "malformed_packets": 206,
    "dropped_packets": 207,
    "receive_errors": 208,
    "remote_errors": 209,
    "general_errors": 210,
    "integrity_errors": 211,
    "recovery_failures": 214,
    "recovery_events": 215,
    "effective_errors": 219,
    "symbol_errors": 221,
}
_EFFECTIVE_BER = 220
_ALL_LINKS = 0xFFFFFFFF
# The packed value for no error at all (NVIDIA/DCGM, common/DcgmUtilities.cpp).
_BER_ZERO = (15, 255)
_SCOPES = {"volatile": 0, "aggregate": 1}
_ECC = {"corrected": 0, "uncorrected": 1}
_SINGLE_BIT, _DOUBLE_BIT = 0, 1
# nvmlUnrepairableMemory_v1 of the binding.
_UNREPAIRABLE_V1 = 0x1000008


FIELDS = (RECOVERY_ACTION, *PCIE_FIELDS.values(), *THROTTLE_FIELDS.values(), *NVLINK_FIELDS.values())


def read(reader: Reader) -> Counters:
    """Read all counters. The reader has to have loaded :data:`FIELDS`."""

    def of(fields: t.Mapping[str, int]) -> dict[str, int | None]:
        return {name: reader.field(number) for name, number in fields.items()}

    repair = reader.ask("nvmlDeviceGetRepairStatus")
    return {
        "recovery_action": named(reader.field(RECOVERY_ACTION), RECOVERY_ACTIONS),
        "remapped_rows": _remapped_rows(reader),
        "retired_pages": _retired_pages(reader),
        "ecc_errors": {
            scope: {kind: reader.ask("nvmlDeviceGetTotalEccErrors", error, counter) for kind, error in _ECC.items()}
            for scope, counter in _SCOPES.items()
        },
        "sram": _sram(reader),
        "repair_pending": repair and {"channel": flag(first(repair, 0)), "tpc": flag(first(repair, 1))},
        "unrepairable_memory": _unrepairable(reader),
        "pcie": of(PCIE_FIELDS),
        "nvlink": of(NVLINK_FIELDS),
        "nvlink_5": _nvlink_5(reader),
        "inforom_valid": reader.check("nvmlDeviceValidateInforom", "CORRUPTED_INFOROM"),
        "throttled": of(THROTTLE_FIELDS),
    }


def _remapped_rows(reader: Reader) -> RemappedRows | None:
    """Return the remapped rows; None where rows are not remapped, and inside MIG."""
    rows = reader.ask("nvmlDeviceGetRemappedRows")
    banks = reader.ask("nvmlDeviceGetRowRemapperHistogram") if rows else None
    if not rows:
        return None
    return {
        "correctable": rows[0],
        "uncorrectable": rows[1],
        "pending": bool(rows[2]),
        "failure": bool(rows[3]),
        # The number of memory banks by their spare rows.
        "banks": banks and {name: getattr(banks, name) for name, _kind in banks._fields_},
    }


def _nvlink_5(reader: Reader) -> dict[str, float | None] | None:
    """Return the counters of NVLink 5; None for a card with an older NVLink or without one."""
    values = reader.fields([(number, _ALL_LINKS) for number in (*NVLINK5_FIELDS.values(), _EFFECTIVE_BER)])
    if all(value is None for value in values):
        return None
    return {**dict(zip(NVLINK5_FIELDS, values)), "effective_ber": bit_error_rate(values[-1])}


def bit_error_rate(packed: int | None) -> float | None:
    """Unpack a bit error rate: the exponent of ten is in bits 0 to 7, the mantissa in bits 8 to 11 (NVML_NVLINK_ERROR_COUNTER_BER_GET)."""
    if packed is None:
        return None
    mantissa, exponent = packed >> 8 & 0xF, packed & 0xFF
    return 0.0 if (mantissa, exponent) == _BER_ZERO else float(f"{mantissa}e-{exponent}")


def _retired_pages(reader: Reader) -> RetiredPages | None:
    """Return the retired pages; None for a card that remaps rows instead (Ampere and later), or has no ECC."""
    single, double = (reader.ask("nvmlDeviceGetRetiredPages", cause) for cause in (_SINGLE_BIT, _DOUBLE_BIT))
    if single is None or double is None:
        return None
    pending = reader.ask("nvmlDeviceGetRetiredPagesPendingStatus")
    return {"single_bit": len(single), "double_bit": len(double), "pending": flag(pending)}


def _sram(reader: Reader) -> dict[str, object] | None:
    if nvml.pynvml is None:
        return None
    status = nvml.pynvml.c_nvmlEccSramErrorStatus_v1_t()
    if not reader.fill("nvmlDeviceGetSramEccErrorStatus", status):
        return None
    return {
        "aggregate_uncorrectable": status.aggregateUncParity + status.aggregateUncSecDed,
        "volatile_uncorrectable": status.volatileUncParity + status.volatileUncSecDed,
        "threshold_exceeded": bool(status.bThresholdExceeded),
    }


class _Unrepairable(ctypes.Structure):
    """The driver's structure is the flag alone. The binding (13.615) adds a version, and so returns the bytes after the flag."""

    _fields_ = (("flag", ctypes.c_uint), ("behind", ctypes.c_uint))


def _unrepairable(reader: Reader) -> bool | None:
    # Filled as the binding does it, for a driver that expects the version.
    status = _Unrepairable(_UNREPAIRABLE_V1, 0)
    if not reader.fill("nvmlDeviceGetUnrepairableMemoryFlag_v1", status):
        return None
    return bool(status.behind if status.flag == _UNREPAIRABLE_V1 else status.flag)

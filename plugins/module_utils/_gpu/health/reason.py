# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reasons for a verdict, and the limits from which a number is a reason. Pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_catalogue as data

RMA = "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/rma-policy-thresholds-for-row-remapping.html"
ROWS = "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/row-remapping.html"
PAGES = "https://docs.nvidia.com/deploy/dynamic-page-retirement/visibility.html"
NVML = "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html"
DCGM = "https://github.com/NVIDIA/DCGM/blob/master/modules/health/DcgmHealthWatch.cpp"
DCGM_LIMITS = "https://github.com/NVIDIA/DCGM/blob/master/common/DcgmGPUHardwareLimits.h"
AZURE = "https://github.com/Azure/azurehpc-health-checks/blob/main/customTests/azure_gpu_ecc.nhc"
AZURE_NVLINK = "https://github.com/Azure/azurehpc-health-checks/blob/main/customTests/azure_gpu_nvlink.nhc"
GPUD = "https://github.com/leptonai/gpud/tree/main/components/accelerator/nvidia"
NVSENTINEL = "https://github.com/NVIDIA/NVSentinel/blob/main/distros/kubernetes/nvsentinel/charts/health-events-analyzer/values.yaml"
PROBE = "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/src/nvidia/arch/nvalloc/unix/src/osapi.c"
IMBUE = "https://github.com/imbue-ai/cluster-health"
FABRIC = "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html"


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits from which a number is a reason, each with its source. A host may have others."""

    # The remapper gives up after 512 rows (NVIDIA's RMA policy), and DCGM fails the GPU there.
    remapped_rows: int = 512
    # DCGM_LIMIT_MAX_RETIRED_PAGES, which follows NVIDIA's field diagnostic; Azure has 62, and the driver room for 64.
    retired_pages: int = 63
    # More than DCGM_LIMIT_MAX_RETIRED_PAGES_SOFT_LIMIT: DCGM fails a GPU there when more than one page came within a week.
    double_bit_pages: int = 16
    # Azure takes hosts out there. NVIDIA's RMA policy has no such number, so it is a reason to watch and no more. Azure allows no
    # uncorrectable error of the SRAM in a card's life; NVIDIA has a threshold, which the card itself reports.
    ecc_errors: int = 20_000_000
    # None: the rate that DCGM 4.6 allows for the generation and lanes of the link (GetExpectedPcieReplayRate).
    pcie_replays_per_minute: float | None = None
    # DCGM_LIMIT_MAX_NVLINK_CRC_ERROR; of all other errors of NVLink DCGM reports the first.
    nvlink_crc_errors_per_second: float = 100
    # The rate that DCGM allows NVLink 5 after its own correction (IsEffectiveBerThresholdExceeded).
    nvlink_bit_error_rate: float = 1e-12
    # gpud checks once a minute and alarms when 6 of 10 checks found a slow-down: the same share of the time, by NVML's own counters.
    slowdown_share: float = 0.6
    # An idle link saves power with a lower generation: it is judged while the GPU is busy for this part of the time.
    busy_percent: int = 50
    # Xids of one code on one GPU within a day. NVSentinel has 5, for bursts of at least 3 minutes; authors of CUDA programs have more.
    repeated_xids: int = 10


@dataclasses.dataclass(frozen=True)
class Reason:
    """A reason for a verdict, with its evidence and the source of the rule."""

    what: str  # kept: a key of the report
    evidence: str
    source: str
    verdict: str
    next_step: str


NEXT_STEPS = {
    data.PASS: "",
    data.MONITOR: "nothing has to be done now: check whether it grows",
    data.RESTART_APP: "start the program again; where it fails on this GPU only, examine the GPU",
    data.RESET_GPU: "end what uses the GPU and reset it (nvidia-smi --gpu-reset -i <uuid>); if that fails, reboot",
    data.REBOOT: "reboot; if it comes back, power the host off, reseat the card, and have it replaced",
    data.REPLACE: "take the card out of use, run NVIDIA's field diagnostic on it, and have it replaced",
}


def at(signs: t.Any, *path: str) -> t.Any | None:
    """Return the value at a path of keys; None where any level is None."""
    for key in path:
        if signs is None:
            return None
        signs = signs.get(key)
    return signs


def rank(verdict: str) -> int:
    """Return the position of a verdict, from PASS (0) to REPLACE."""
    return data.VERDICTS.index(verdict)


def gravest(verdicts: t.Iterable[str]) -> str:
    """Return the gravest verdict; PASS without any."""
    return max(verdicts, key=rank, default=data.PASS)


def reason(name: str, evidence: str, source: str, verdict: str, next_step: str = "") -> Reason:
    """Return a reason, with the usual next step of its verdict unless another is given."""
    return Reason(name, evidence, source, verdict, next_step or NEXT_STEPS[verdict])

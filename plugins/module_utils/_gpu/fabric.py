# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The NVLink fabric of a GPU: its state with the fabric manager, and its health. CUDA does not start until it is completed."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.card_facts import Fabric
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import answer_of
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.reader import Reader, named

# Names and numbers: nvml.h of CUDA 13 (nvidia-ml-py 13.615), NVML_GPU_FABRIC_*.
NOT_SUPPORTED = 0
STATES = {1: "not_started", 2: "in_progress", 3: "completed"}
SUMMARIES = {1: "healthy", 2: "unhealthy", 3: "limited_capacity"}
CONFIGURATIONS = {
    1: "none",
    2: "incorrect_sysguid",
    3: "incorrect_chassis_serial",
    4: "no_partition",
    5: "insufficient_nvlinks",
    6: "incompatible_gpu_firmware",
    7: "invalid_location",
    8: "gpu_state_invalid",
}
# Two bits each, by their first bit in the mask: 0 is not supported, 1 true, 2 false.
_FLAGS = {"degraded_bandwidth": 0, "route_recovery": 2, "route_unhealthy": 4, "access_timeout_recovery": 6}
_TRUTH = {1: True, 2: False}
_CONFIGURATION_SHIFT, _CONFIGURATION_WIDTH = 8, 0xF


def read(reader: Reader) -> Fabric | None:
    """Read the fabric; None for a GPU without NVSwitch, and before Hopper."""
    info = _ask(reader)
    if info is None or info.state == NOT_SUPPORTED:
        return None
    flags = {name: _TRUTH.get(info.healthMask >> shift & 0x3) for name, shift in _FLAGS.items()}
    configuration = info.healthMask >> _CONFIGURATION_SHIFT & _CONFIGURATION_WIDTH
    return {
        "state": named(info.state, STATES),
        "status": "SUCCESS" if info.status == 0 else answer_of(info.status).name,
        "clique": info.cliqueId,
        "health": {**flags, "incorrect_configuration": named(configuration or None, CONFIGURATIONS)},
        "summary": named(getattr(info, "healthSummary", 0) or None, SUMMARIES),
    }


def _ask(reader: Reader) -> t.Any | None:
    if nvml.pynvml is None:
        return None
    # Drivers before 575, and older bindings, have the second version only.
    for name in ("c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t"):
        structure = getattr(nvml.pynvml, name, None)
        info = structure and structure()
        if info and reader.fill("nvmlDeviceGetGpuFabricInfoV", info):
            return info
    return None

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the devices for MPS daemons from NVML: GPUs and MIG instances."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.request import Device
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card, Nvml

# nvmlComputeMode_t of nvml.h.
COMPUTE_MODES = {0: "DEFAULT", 1: "EXCLUSIVE_THREAD", 2: "PROHIBITED", 3: "EXCLUSIVE_PROCESS"}
MIB = 2**20


def read(nvml: Nvml) -> tuple[list[Device], str]:
    """Read the devices in NVML's order, instances after their GPU, and the driver's version. A lost GPU is left out.

    :raises NvmlError: NVML does not answer.
    """
    devices = []
    for card in nvml.cards():
        if card.problem is None:
            devices += _of(nvml, card)
    return devices, t.cast(str, nvml.call("nvmlSystemGetDriverVersion"))


def _of(nvml: Nvml, card: Card) -> list[Device]:
    mig = nvml.ask("nvmlDeviceGetMigMode", card.handle)
    capability = nvml.ask("nvmlDeviceGetCudaComputeCapability", card.handle)
    mode = nvml.ask("nvmlDeviceGetComputeMode", card.handle)
    compute_mode = COMPUTE_MODES.get(0 if mode is None else mode, "DEFAULT")
    gpu = Device(
        uuid=card.uuid,
        index=str(card.index),
        pci_address=card.pci_address,
        name=card.name,
        divided=bool(mig and mig[0]),
        compute_mode=compute_mode,
        capability=(capability[0], capability[1]) if capability else None,
        memory_mib=_memory(nvml, card.handle),
    )
    return [gpu, *(_instances(nvml, card, gpu) if gpu.divided else [])]


def _instances(nvml: Nvml, card: Card, gpu: Device) -> list[Device]:
    instances = []
    for index in range(nvml.ask("nvmlDeviceGetMaxMigDeviceCount", card.handle) or 0):
        handle = nvml.ask("nvmlDeviceGetMigDeviceHandleByIndex", card.handle, index)
        if handle is not None:
            instances.append(
                Device(
                    uuid=nvml.call("nvmlDeviceGetUUID", handle),
                    name=gpu.name,
                    parent=gpu.uuid,
                    compute_mode=gpu.compute_mode,
                    capability=gpu.capability,
                    memory_mib=_memory(nvml, handle),
                )
            )
    return instances


def _memory(nvml: Nvml, handle: t.Any) -> int | None:
    info = nvml.ask("nvmlDeviceGetMemoryInfo", handle)
    return None if info is None else info.total // MIB

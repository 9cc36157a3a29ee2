# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The NVIDIA GPUs of a host, by their PCI ids: no driver is needed."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import Facts
from ansible_collections.rigwright.workstation.plugins.module_utils._system import pci
from ansible_collections.rigwright.workstation.plugins.module_utils._system.modprobe import kept_by


def find_chip(device: int) -> data.Chip:
    """Return the chip of a PCI device id. An id in no range is new."""
    for row in data.PCI_RANGES:
        if row.first <= device <= row.last:
            return next(chip for chip in data.CHIPS if chip.name == row.chip)
    return data.UNKNOWN_CHIP


def lowest_driver(device: int) -> str:
    """Return the first driver release that knows a PCI device id, empty if that is unknown."""
    later = (release for release, devices in data.LATER_CARDS.items() if device in devices)
    return next(later, find_chip(device).lowest_driver)


def has_mig(device: int) -> bool:
    return (find_chip(device).mig or device in data.MIG_DEVICES) and device not in data.NO_MIG_DEVICES


def describe_device(device: int) -> Facts:
    """Return generation and abilities of a PCI device id."""
    chip = find_chip(device)
    generation = next(row for row in data.GENERATIONS if row.name == chip.generation)
    return {
        "device_id": f"{device:04x}",
        "known": chip is not data.UNKNOWN_CHIP,
        "chip": chip.name,
        "generation": chip.generation,
        "compute_capability": chip.compute_capability,
        "mig": has_mig(device),
        "bf16": generation.bf16,
    }


def read_gpus(tree: Tree) -> list[Facts]:
    names = _pci_names(tree)
    gpus = []
    for address in pci.nvidia_devices(tree, pci.DISPLAY):
        where = f"{pci.DEVICES}/{address}"
        device = int(tree.text(f"{where}/device"), 16)
        model = re.search(
            r"^Model:\s*(.+)$", tree.text(f"/proc/driver/nvidia/gpus/{address}/information"), re.MULTILINE
        )
        gpus.append(
            {
                "address": address,
                "name": model.group(1).strip() if model else names.get(device, ""),
                "kernel_driver": pci.driver_of(tree, address) or kept_by(tree, address),
                **describe_device(device),
            }
        )
    return gpus


def of_host(gpus: t.Iterable[Facts]) -> list[Facts]:
    """Return the GPUs that the host itself uses, or would with a driver: those that no virtual machine has."""
    return [gpu for gpu in gpus if gpu.get("kernel_driver") not in pci.PASSED_ON]


def passed_on(gpus: t.Iterable[Facts]) -> list[Facts]:
    """Return the GPUs that a virtual machine has now, or is to have."""
    return [gpu for gpu in gpus if gpu.get("kernel_driver") in pci.PASSED_ON]


def of_driver(gpus: t.Iterable[Facts]) -> list[Facts]:
    """Return the GPUs that programs of the host can use: those that the driver runs, and before it is loaded those of the host.

    A driver ignores a card that it does not know, as a newer branch does with an older card.
    """
    own = of_host(gpus)
    return [gpu for gpu in own if gpu.get("kernel_driver") == "nvidia"] or own


def _pci_names(tree: Tree) -> dict[int, str]:
    """Return the names of NVIDIA's devices from pci.ids, if the host has that file."""
    text = next(
        filter(None, (tree.text(path) for path in ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"))), ""
    )
    section = re.search(r"^10de .*\n((?:[\t#].*\n|\n)*)", text, re.MULTILINE)
    lines = re.findall(r"^\t([0-9a-f]{4})  (.+)$", section.group(1), re.MULTILINE) if section else []
    return {int(number, 16): name for number, name in lines}


def has_nvswitch(tree: Tree) -> bool:
    """Return whether the host has NVSwitch chips, which need the fabric manager."""
    return bool(tree.names("/proc/driver/nvidia-nvswitch/devices") or pci.nvswitches(tree))

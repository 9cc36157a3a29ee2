# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""List NVIDIA's PCI devices, with and without a driver. Classes: pci.ids, section "List of known device classes"."""

from __future__ import annotations

import os

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._system import modprobe

DEVICES = "/sys/bus/pci/devices"
NVIDIA = "0x10de"
# Any display controller (VGA, 3D), and the bridge that NVSwitch is: base class and subclass, as sysfs writes them.
DISPLAY, SWITCH = "0x03", "0x0680"
# The Ethernet of nForce boards is a bridge of NVIDIA's as well: their ids end before 0x0e00, those of NVSwitch begin here (pci.ids).
FIRST_SWITCH = 0x1AC0
# Drivers that keep a device for a virtual machine (kernel: drivers/vfio/pci, drivers/pci/pci-stub.c, drivers/xen/xen-pciback).
PASSED_ON = frozenset({"vfio-pci", "nvgrace-gpu-vfio-pci", "pci-stub", "pciback"})
# Those that take devices by their ids: their modules, and what they are called on the bus. FFFFFFFF stands for any number
# (kernel: drivers/vfio/pci/vfio_pci.c, drivers/pci/pci-stub.c).
BY_IDS = {"vfio_pci": "vfio-pci", "pci_stub": "pci-stub"}
ANY = 0xFFFFFFFF


def nvidia_devices(tree: Tree, kind: str) -> list[str]:
    """Return the addresses of NVIDIA's devices of a class, such as 0000:01:00.0."""
    return [
        address
        for address in tree.names(DEVICES)
        if tree.text(f"{DEVICES}/{address}/vendor").strip() == NVIDIA
        and tree.text(f"{DEVICES}/{address}/class").startswith(kind)
    ]


def nvswitches(tree: Tree) -> list[str]:
    """Return the addresses of NVSwitch chips."""
    return [
        address
        for address in nvidia_devices(tree, SWITCH)
        if int(tree.text(f"{DEVICES}/{address}/device"), 16) >= FIRST_SWITCH
    ]


def driver_of(tree: Tree, address: str) -> str:
    """Return the name of a device's kernel driver; empty without one."""
    return os.path.basename(tree.link(f"{DEVICES}/{address}/driver"))


def kept_by(tree: Tree, address: str) -> str:
    """Return the driver that a device without one is kept for, mostly for a virtual machine; empty if it is for the host."""
    override = tree.text(f"{DEVICES}/{address}/driver_override").strip()
    if override not in ("", "(null)"):
        return override if override != "nvidia" else ""
    keepers = (
        driver
        for module, driver in BY_IDS.items()
        if any(_names(tree, address, ids) for ids in modprobe.option(tree, module, "ids").split(","))
    )
    return next(keepers, "")


def _names(tree: Tree, address: str, ids: str) -> bool:
    """Return whether `vendor:device[:subvendor[:subdevice[:class[:mask]]]]` names a device."""
    try:
        numbers = [int(number, 16) for number in ids.split(":")]
    except ValueError:
        return False
    wanted = [*numbers, *[ANY, ANY, ANY, ANY, 0, 0][len(numbers) :]]
    *device, group = (
        int(tree.text(f"{DEVICES}/{address}/{name}").strip() or "0", 16)
        for name in ("vendor", "device", "subsystem_vendor", "subsystem_device", "class")
    )
    same = all(number in (ANY, found) for number, found in zip(wanted, device))
    return len(numbers) > 1 and same and (group ^ wanted[4]) & wanted[5] == 0

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""List NVIDIA's PCI devices, with and without a driver. Classes: pci.ids, section "List of known device classes"."""

from __future__ import annotations

import os

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree

DEVICES = "/sys/bus/pci/devices"
NVIDIA = "0x10de"
# Any display controller (VGA, 3D), and the bridge that NVSwitch is: base class and subclass, as sysfs writes them.
DISPLAY, SWITCH = "0x03", "0x0680"
# The Ethernet of nForce boards is a bridge of NVIDIA's as well: their ids end before 0x0e00, those of NVSwitch begin here (pci.ids).
FIRST_SWITCH = 0x1AC0
# Drivers that keep a device for a virtual machine (kernel: drivers/vfio/pci, drivers/pci/pci-stub.c, drivers/xen/xen-pciback).
PASSED_ON = frozenset({"vfio-pci", "nvgrace-gpu-vfio-pci", "pci-stub", "pciback"})


def nvidia_devices(tree: Tree, kind: str) -> list[str]:
    """Return the addresses of NVIDIA's devices of a class, without parts of cards."""
    return [
        address
        for address in tree.names(DEVICES)
        if tree.text(f"{DEVICES}/{address}/vendor").strip() == NVIDIA
        and tree.text(f"{DEVICES}/{address}/class").startswith(kind)
        and not tree.link(f"{DEVICES}/{address}/physfn")
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

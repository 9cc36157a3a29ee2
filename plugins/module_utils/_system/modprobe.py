# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of modprobe.d(5) and parameters of the kernel, and devices that they keep from the host."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._system.parts import (
    MODPROBE,
    by_name,
    module_options,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system.pci import DEVICES, PASSED_ON, driver_of

COMMAND_LINE = "/proc/cmdline"
# Drivers that take devices by their ids, by module (kernel: drivers/vfio/pci/vfio_pci.c, drivers/pci/pci-stub.c).
BY_IDS = {"vfio_pci": "vfio-pci", "pci_stub": "pci-stub"}
ANY = 0xFFFFFFFF


class Setting(t.NamedTuple):
    """A line of a file, or a parameter of the kernel, and the file that has it."""

    setting: str
    file: str


def settings(tree: Tree) -> list[Setting]:
    """Return the lines of modprobe.d, in the order in which modprobe reads them."""
    return [Setting(line, path) for path in by_name(tree, MODPROBE, ".conf") for line in _lines(tree.text(path))]


def parameters(tree: Tree) -> list[Setting]:
    """Return the parameters that the kernel was started with."""
    return [Setting(word, COMMAND_LINE) for word in tree.text(COMMAND_LINE).split()]


def option(tree: Tree, module: str, name: str) -> str:
    """Return the value of a module's option. The last one counts, and the kernel's parameters come last."""
    given = [(f"{of}.{key}", value) for line in settings(tree) for of, key, value in module_options(line.setting)]
    given += [word.partition("=")[::2] for word in tree.text(COMMAND_LINE).split()]
    values = [value for key, value in given if key.replace("-", "_") == f"{module}.{name}"]
    return values[-1].strip("\"'") if values else ""


def _lines(text: str) -> list[str]:
    joined = re.sub(r"\\\n", " ", text)
    return [" ".join(line.split()) for line in joined.splitlines() if not line.lstrip().startswith("#")]


def kept_by(tree: Tree, address: str, *, was_used: bool = False) -> str:
    """Return the driver that a device without one is kept for, mostly for a virtual machine; empty if it is for the host.

    Ids in a file may be older than the use of the device by the host.

    :param was_used: the host has used it, so ids keep it for nothing.
    """
    override = _override(tree, address)
    if override:
        return override if override != "nvidia" else ""
    for module, driver in BY_IDS.items():
        ids = [] if was_used else option(tree, module, "ids").split(",")
        if any(_names(tree, address, each) and not _is_used(tree, address, each) for each in ids):
            return driver
    return ""


def _override(tree: Tree, address: str) -> str:
    override = tree.text(f"{DEVICES}/{address}/driver_override").strip()
    return override if override != "(null)" else ""


def _is_used(tree: Tree, address: str, ids: str) -> bool:
    """Return whether the host uses a device of the same kind that ids name as well: they are then not in force.

    One with a driver of its own in ``driver_override`` says nothing about them.
    """
    kind = _kind(tree, address)
    return any(
        driver_of(tree, other) not in ("", *PASSED_ON)
        for other in tree.names(DEVICES)
        if _kind(tree, other) == kind and not _override(tree, other) and _names(tree, other, ids)
    )


def _kind(tree: Tree, address: str) -> str:
    """Return the base class of a device, such as 0x03 for displays. The other functions of a card have others."""
    return tree.text(f"{DEVICES}/{address}/class")[:4]


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

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of modprobe (modprobe.d(5)) and of the kernel's parameters, and the devices that these keep from the host."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._system.pci import DEVICES

# The first directory with a file of a name has it (modprobe.d(5), kmod 34).
DIRECTORIES = (
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
)
COMMAND_LINE = "/proc/cmdline"
# Those that take devices by their ids: their modules, and what they are called on the bus. FFFFFFFF stands for any number
# (kernel: drivers/vfio/pci/vfio_pci.c, drivers/pci/pci-stub.c).
BY_IDS = {"vfio_pci": "vfio-pci", "pci_stub": "pci-stub"}
ANY = 0xFFFFFFFF


class Setting(t.NamedTuple):
    """A line of a file, or a parameter of the kernel, and the file that has it."""

    setting: str
    file: str


def settings(tree: Tree) -> list[Setting]:
    """Return the lines of modprobe.d, in the order in which modprobe reads them."""
    files: dict[str, str] = {}
    for directory in DIRECTORIES:
        for name in tree.names(directory):
            if name.endswith(".conf"):
                files.setdefault(name, f"{directory}/{name}")
    return [Setting(line, path) for _name, path in sorted(files.items()) for line in _lines(tree.text(path))]


def parameters(tree: Tree) -> list[Setting]:
    """Return the parameters that the kernel was started with."""
    return [Setting(word, COMMAND_LINE) for word in tree.text(COMMAND_LINE).split()]


def option(tree: Tree, module: str, name: str) -> str:
    """Return the value of a module's option. The last one counts, and the kernel's parameters come last."""
    value = ""
    for line in settings(tree):
        fields = line.setting.split()
        if fields[:1] == ["options"] and _same(fields[1:2], module):
            value = next((word.partition("=")[2] for word in fields[2:] if word.startswith(f"{name}=")), value)
    for word in parameters(tree):
        key, _sign, given = word.setting.partition("=")
        owner, _dot, key = key.partition(".")
        value = given if key == name and _same([owner], module) else value
    return value.strip("\"'")


def _same(names: t.Sequence[str], module: str) -> bool:
    return [name.replace("-", "_") for name in names] == [module]


def _lines(text: str) -> list[str]:
    joined = re.sub(r"\\\n", " ", text)
    return [" ".join(line.split()) for line in joined.splitlines() if not line.lstrip().startswith("#")]


def kept_by(tree: Tree, address: str) -> str:
    """Return the driver that a device without one is kept for, mostly for a virtual machine; empty if it is for the host."""
    override = tree.text(f"{DEVICES}/{address}/driver_override").strip()
    if override not in ("", "(null)"):
        return override if override != "nvidia" else ""
    keepers = (
        driver
        for module, driver in BY_IDS.items()
        if any(_names(tree, address, ids) for ids in option(tree, module, "ids").split(","))
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

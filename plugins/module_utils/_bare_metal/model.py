# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The request for a rebuild, a disk that it names, and the plan."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import layout
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import storage
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest.document import Facts

# Without these the system does not start.
NEEDED = ("/", "/usr", "/var", "/boot", "/boot/efi", "/efi")
MADE = (*layout.DATA, "vfat", storage.SWAP, storage.LUKS, storage.PV, "")
# The backup has to have these for that. What else is needed depends on the machine.
RESTORED = ("/boot", "/etc", "/usr", "/var")
LINEAR = ("linear", "striped")
BY_ID = "/dev/disk/by-id/"
IDENTITY = ("serial", "wwn", "size")
# The packages that make an initramfs.
INITRAMFS = ("initramfs-tools", "initramfs-tools-core", "dracut", "dracut-core")
LOADERS = {"uefi": "grub-efi", "bios": "grub-pc"}


@dataclasses.dataclass(frozen=True)
class Request:
    """A request. ``disks``: by the manifest's name, the path of the disk to write to."""

    confirm: str
    disks: t.Mapping[str, str]
    keep: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    overwrite: tuple[str, ...] = ()
    data: t.Mapping[str, int] = dataclasses.field(default_factory=dict)
    grow: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    passphrase: bool = False
    # Disks that an earlier run of the same request has begun to write to, with their identities.
    begun: t.Mapping[str, Facts] = dataclasses.field(default_factory=dict)
    # The snapshots to restore, with host, tags and paths; None where no repository is named.
    snapshots: t.Sequence[Facts] | None = None


@dataclasses.dataclass(frozen=True)
class Target:
    """The live system: devices as parse_lsblk of the manifest returns them, the paths that lead to each, and the boot mode."""

    devices: Facts
    paths: t.Mapping[str, t.Sequence[str]]
    mode: str
    # The volume groups, with the paths of their devices; lsblk shows only groups with volumes.
    groups: t.Mapping[str, t.Sequence[str]] = dataclasses.field(default_factory=dict)
    # The ids of the partition tables.
    tables: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    # The network cards, with their addresses of hardware.
    cards: t.Mapping[str, str] = dataclasses.field(default_factory=dict)

    def stable(self, name: str) -> list[str]:
        """Return the paths that still lead to this disk after the next boot; those of its port only if it has no name of its own."""
        paths = self.paths.get(name, ())
        return [path for path in paths if path.startswith(BY_ID)] or list(paths)

    def identity(self, name: str) -> Facts:
        """Return the identity of a disk."""
        return {key: self.devices[name].get(key, "") for key in IDENTITY}

    def find(self, path: str) -> str:
        """Return the name of the device that a path leads to, or an empty string."""
        for name, device in self.devices.items():
            if path == device["path"] or path in self.paths.get(name, ()):
                return name
        return ""

    def above(self, name: str) -> list[str]:
        """Return every device on top of a device."""
        found: list[str] = []
        for child, device in self.devices.items():
            if name in device["parents"] and child not in found:
                found += [child, *self.above(child)]
        return found


@dataclasses.dataclass
class Plan:
    """``phases``: the steps by phase. ``summary``: a description of the steps."""

    refusals: list[Facts] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    summary: list[str] = dataclasses.field(default_factory=list)
    phases: dict[str, list[Facts]] = dataclasses.field(default_factory=dict)

    def refuse(self, variable: str, problem: str, remedy: str) -> None:
        self.refusals.append({"ok": False, "variable": f"bare_metal_{variable}", "problem": problem, "remedy": remedy})

    def programs(self) -> list[str]:
        """Return the programs that the steps run on the live system: a missing one would be noticed only after disks were emptied."""
        return sorted({step["command"][0] for steps in self.phases.values() for step in steps if step["do"] == "run"})

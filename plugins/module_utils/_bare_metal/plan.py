# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan how a machine is built again on empty disks: from its manifest and the live system to steps as data. Pure.

Only disks that the request names are written to. All problems are found before the first step: the plan then has refusals and no
steps.
"""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import files, layout, steps
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.checks import (
    check_request,
    check_stacks,
    check_whole,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.layout import DoesNotFit, Partition
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.model import (
    Facts,
    Plan,
    Request,
    Target,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import document, storage

BIOS_BOOT = "21686148-6449-6E6F-744E-656564454649"
_GAP, _PARTITION = 1, 2


def plan(manifest: Facts, target: Target, request: Request) -> Plan:
    """Plan the rebuild, or return its problems."""
    result = Plan()
    check_request(manifest, target, request, result)
    if result.refusals:
        return result
    names = layout.devices_on(manifest, request.disks, request.empty)
    check_stacks(manifest, target, request, names, result)
    tables: dict[str, list[Partition]] = {}
    for disk, path in request.disks.items():
        here = target.devices[target.find(path)]
        if not manifest["disks"][disk]["table"] and manifest["devices"][disk].get("table_type"):
            result.refuse(
                "manifest", f"lacks the partition table of {disk}", "take one that was made where sfdisk could read it"
            )
            continue
        if not manifest["disks"][disk]["table"]:
            check_whole(manifest, disk, here, request, result)
            continue
        try:
            tables[disk] = layout.lay_out(
                manifest, disk, here["size"], here["logical_sector"], request.data, request.grow.get(disk, "")
            )
        except DoesNotFit as error:
            result.refuse(
                "disks",
                f"{disk} does not fit on {path} ({layout.human(here['size'])}): {error}",
                "name a larger disk, or say with bare_metal_data how many bytes come back to a mount point",
            )
    if result.refusals:
        return result
    on = {disk: target.find(path) for disk, path in request.disks.items()}
    filled = [name for name in names if name not in request.empty]
    left_out = layout.unmade_mounts(manifest, filled)
    built = steps.Build(manifest, target.devices, _nodes(target, request, tables), request.empty)
    try:
        built.disks(tables, on, request.data, target.above)
    except DoesNotFit as error:
        result.refuse("disks", str(error), "name a larger disk, or say with bare_metal_data how many bytes come back")
        return result
    built.files(left_out)
    built.system(filled, _absent(manifest, target, filled), _boot_disk(manifest, target, request), left_out)
    result.phases, result.summary = built.phases, built.summary
    result.notes += [*built.notes, *_notes(manifest, filled), *_network(manifest, target), *_switched_off(built)]
    return result


def _nodes(target: Target, request: Request, tables: t.Mapping[str, list[Partition]]) -> dict[str, tuple[str, int]]:
    """Return path and size, on the target, of the disks and partitions that are made."""
    found = {}
    for disk, path in request.disks.items():
        here = target.devices[target.find(path)]
        found[disk] = (here["path"], here["size"])
        between = "p" if here["path"][-1].isdigit() else ""
        for partition in tables.get(disk, []):
            found[partition.row["name"]] = (f"{here['path']}{between}{partition.number}", partition.size)
    return found


def _absent(manifest: Facts, target: Target, names: t.Sequence[str]) -> list[str]:
    """Return devices of the manifest that are neither created nor in this machine."""
    uuids = {device["content"]["uuid"] for device in target.devices.values()}
    return [
        name
        for name, device in manifest["devices"].items()
        if name not in names and device["content"]["uuid"] and device["content"]["uuid"] not in uuids
    ]


def _boot_disk(manifest: Facts, target: Target, request: Request) -> tuple[str, str]:
    """Return the path, and a name that survives reboots, of the disk that a BIOS boots: that of /boot, or of /.

    Of several, and where that one has no room for grub, it is the disk that has a partition for it.
    """
    for point in ("/boot", "/"):
        under = layout.devices_under(manifest, point)
        found = [disk for disk in request.disks if disk in under]
        if found:
            disk = max(found, key=lambda name: _room_for_grub(manifest, name))
            if not _room_for_grub(manifest, disk):
                disk = max([disk, *request.disks], key=lambda name: _room_for_grub(manifest, name) == _PARTITION)
            name = target.find(request.disks[disk])
            path = target.devices[name]["path"]
            return path, next(iter(target.paths.get(name, ())), path)
    return "", ""


def _room_for_grub(manifest: Facts, disk: str) -> int:
    """Return whether grub has a partition of its own on a disk, or a gap before the first one, or nothing."""
    table = manifest["disks"][disk]["table"]
    if table and any(row["type"].upper() == BIOS_BOOT for row in table["partitions"]):
        return _PARTITION
    return _GAP if table and table["type"] == "dos" else 0


def _network(manifest: Facts, target: Target) -> list[str]:
    """Name the cards of the machine that are not here: its files of the network do not fit the new ones."""
    here = ", ".join(f"{name} ({address})" for name, address in sorted(target.cards.items())) or "none"
    return [
        f"the network card {card['name']} ({', '.join([card['mac'], *card['addresses']])}) is not in this machine, which has {here}: "
        f"before the reboot, adapt what names it of {', '.join(f'{steps.ROOT}{path}' for path in document.NETWORK)}"
        for card in manifest.get("network", ())
        if target.cards.get(card["name"], "").lower() != card["mac"].lower() or not card["mac"]
    ]


def _switched_off(built: steps.Build) -> list[str]:
    """Name the lines of crypttab that the rebuild switches off."""
    edits = [step for step in built.phases["system"] if step["do"] == "edit" and step["kind"] == "crypttab"]
    text = built.manifest.get("files", {}).get("crypttab", "")
    return [
        f"/etc/crypttab: {line.removeprefix('# ')}; name the disk, and take the comment away"
        for step in edits
        for line in files.edit_crypttab(text, step["references"], step["absent"]).splitlines()
        if line not in text.splitlines() and line.startswith("#")
    ]


def _notes(manifest: Facts, names: t.Sequence[str]) -> list[str]:
    notes = []
    if manifest["boot"]["secure_boot"] == "enabled":
        notes.append(
            "Secure Boot: a key of your own for DKMS's modules has to be enrolled again: mokutil --import /var/lib/dkms/mok.pub"
        )
    if any(manifest["devices"][name]["content"]["type"] == storage.LUKS for name in names):
        notes.append("LUKS: the header is new; a TPM or key file that unlocked the old one has to be enrolled again")
    if "cloud-init" in manifest.get("packages", {}).get("versions", {}):
        notes.append(
            "cloud-init may take this for a new instance, which gets new host keys and network settings: "
            f"before the reboot, touch {steps.ROOT}/etc/cloud/cloud-init.disabled"
        )
    if "resume_offset=" in manifest["boot"].get("command_line", ""):
        notes.append("the swap file is in another place of its disk: set resume_offset= again, to hibernate")
    for group, facts in manifest["volume_groups"].items():
        for volume in facts["volumes"] if layout.devices_of(manifest, group) & set(names) else ():
            if volume["origin"]:
                notes.append(
                    f"the volume {group}/{volume['name']} was a snapshot of {volume['origin']}: it is not made again"
                )
            elif volume["type"] == "striped" and volume.get("stripes", 1) > 1:
                notes.append(
                    f"the volume {group}/{volume['name']} was striped over {volume['stripes']} disks: it becomes linear"
                )
    for release, whole in manifest["kernels"]["installed"].items():
        if not whole:
            notes.append(
                f"the kernel {release} had no modules on the machine: it is restored as it was, and not to be booted"
            )
    return notes

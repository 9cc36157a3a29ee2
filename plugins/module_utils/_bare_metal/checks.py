# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why a rebuild is refused: problems with variable and remedy. Any problem blocks all changes."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup.tags import DUMP
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import layout
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.model import (
    BY_ID,
    INITRAMFS,
    LINEAR,
    LOADERS,
    MADE,
    NEEDED,
    RESTORED,
    Facts,
    Plan,
    Request,
    Target,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import boot, storage
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import NETWORK, is_within


def check_request(manifest: Facts, target: Target, request: Request, result: Plan) -> None:
    """Check what needs no layout: names, disks, firmware."""
    host, mode = manifest["host"]["name"], manifest["boot"]["mode"]
    if request.confirm != host:
        result.refuse(
            "confirm",
            f"is {request.confirm!r}, and the manifest is of {host!r}",
            f"set it to {host} if that is the machine to build again here, or take another manifest",
        )
    if request.snapshots is not None:
        _check_snapshots(request.snapshots, result)
    if target.mode != mode:
        result.refuse(
            "manifest",
            f"is of a machine that boots by {mode.upper()}, and this live system was booted by {target.mode.upper()}",
            f"boot the live system by {mode.upper()}: choose so in the firmware's boot menu",
        )
    _check_boot(manifest, mode, result)
    for name in [*request.disks, *request.keep]:
        if name not in manifest["disks"]:
            result.refuse("disks", f"names {name}, and the manifest has {', '.join(manifest['disks'])}", "name these")
    for name in request.empty:
        if name not in manifest["devices"]:
            result.refuse(
                "empty", f"names {name}, which is not in the manifest", "name partitions by their names there"
            )
    for disk, name in request.grow.items():
        rows = manifest["disks"].get(disk, {}).get("table", {}).get("partitions", [])
        if name not in [row["name"] for row in rows]:
            result.refuse("grow", f"names {name}, which is no partition of {disk}", "name one, or leave it out")
    if not request.disks:
        result.refuse("disks", "names no disk", "name the disks to write to, by the manifest's names")
    unnamed = [name for name in used_disks(manifest) if name not in request.disks and name not in request.keep]
    for name in unnamed:
        holds = ", ".join(layout.mount_points(manifest, layout.devices_on(manifest, [name]))) or "no mount"
        size = layout.human(manifest["devices"][name]["size"])
        result.refuse(
            "disks",
            f"has no disk for {name} of the manifest, which has {size} and holds {holds}",
            f"name one of {_disks_here(target)}, or add {name} to bare_metal_keep if it is not to be made again",
        )
    for variable, name, remedy in [
        *(("keep", name, f"give {name} a disk in bare_metal_disks") for name in request.keep),
        *(("empty", name, "take it out: without it no system starts") for name in request.empty),
    ]:
        for point in sorted(set(layout.mount_points(manifest, layout.devices_on(manifest, [name]))) & set(NEEDED)):
            result.refuse(variable, f"has {name}, which holds {point}", remedy)
    for name, path in request.disks.items():
        _check_disk(manifest, name, path, target, request, result)
    found = [target.find(path) for path in request.disks.values() if target.find(path)]
    for name in sorted({disk for disk in found if found.count(disk) > 1}):
        result.refuse("disks", f"names {target.devices[name]['path']} twice", "name a disk for each")


def _check_boot(manifest: Facts, mode: str, result: Plan) -> None:
    """Check that what makes the machine start is known: its loader and its initramfs."""
    packages = manifest.get("packages", {}).get("versions", {})
    # A manifest of an earlier version names a loader without regard to the firmware.
    loader = boot.loader(packages, mode, manifest["boot"].get("efi")) or manifest["boot"]["loader"]
    if loader != LOADERS.get(mode):
        result.refuse(
            "manifest",
            f"names {loader or 'no boot loader'}, and only {LOADERS.get(mode, 'grub')} is set up for {mode.upper()}",
            "install that package on the machine before the backup, or restore its files and make it boot by hand",
        )
    elif mode == boot.UEFI and not any(
        row["target"] in storage.ESP and row["type"] == "vfat" for row in manifest["mounts"]
    ):
        result.refuse(
            "manifest",
            f"names no EFI partition that was mounted at {', '.join(storage.ESP)}, and grub is installed there",
            "mount it on the machine before the backup; or add the mount to a copy, for bare_metal_manifest",
        )
    if packages and not any(maker in packages for maker in INITRAMFS):
        result.refuse(
            "manifest",
            f"names no package that makes an initramfs ({', '.join(INITRAMFS)})",
            "install one on the machine before the backup, or restore its files and make it boot by hand",
        )


def _check_snapshots(snapshots: t.Sequence[Facts], result: Plan) -> None:
    """Check that the snapshots restore a system that starts; otherwise this would show after hours, on emptied disks."""
    remedy = "name the snapshots of files, as {id: latest, filters: [--host=..., '--tag=job:NAME,part:files']}; see `restic snapshots`"
    for snapshot in snapshots:
        name = f"{snapshot['id'][:8]} of {snapshot['time']}"
        dumps = [tag for tag in snapshot["tags"] if tag.startswith(DUMP)]
        if dumps:
            result.refuse("snapshots", f"has {name}, which is the dump {dumps[0][len(DUMP) :]} and no files", remedy)
    hosts = sorted({snapshot["host"] for snapshot in snapshots})
    if len(hosts) > 1:
        result.refuse("snapshots", f"has snapshots of several hosts ({', '.join(hosts)})", remedy)
    paths = [path for snapshot in snapshots for path in snapshot["paths"]]
    for place in RESTORED:
        if not any(is_within(place, path) for path in paths):
            result.refuse("snapshots", f"brings nothing back to {place}, without which no system starts", remedy)


def _disks_here(target: Target) -> str:
    """List the disks of the live system by names that do not change at the next boot."""
    disks = {name: device for name, device in target.devices.items() if device["kind"] == "disk"}
    return ", ".join(
        f"{next(iter(target.paths.get(name, ())), device['path'])} ({layout.human(device['size'])})"
        for name, device in disks.items()
    )


def _is_ours(manifest: Facts, name: str, found: str, target: Target) -> bool:
    """Return whether a disk has what an earlier run of this rebuild wrote."""
    table = (manifest["disks"].get(name) or {}).get("table")
    if table:
        return bool(table["id"]) and _plain(table["id"]) == _plain(target.tables.get(found, ""))
    uuid = manifest["devices"].get(name, {}).get("content", {}).get("uuid", "")
    return bool(uuid) and uuid == target.devices[found]["content"]["uuid"]


def _plain(identity: str) -> str:
    """Return the id of a table; sfdisk writes that of a DOS table with 0x, lsblk without."""
    return identity.lower().removeprefix("0x")


def _check_disk(manifest: Facts, name: str, path: str, target: Target, request: Request, result: Plan) -> None:
    found = target.find(path)
    if not found:
        result.refuse("disks", f"has {path} for {name}, which is not there", f"name one of {_disks_here(target)}")
        return
    device, above = target.devices[found], target.above(found)
    if device["kind"] != "disk":
        result.refuse("disks", f"has {path} for {name}, which is a {device['kind']}", "name a whole disk")
        return
    if path not in target.stable(found):
        named = next(iter(target.stable(found)), "")
        result.refuse(
            "disks",
            f"has {path} for {name}, which may be another disk after the next boot",
            f"name it as {named}" if named else f"give the disk a serial number, so that it has a name below {BY_ID}",
        )
        return
    if path in request.begun and request.begun[path] != target.identity(found):
        result.refuse(
            "disks",
            f"has {path} for {name}, and that is another disk than the one which an earlier run began to write to",
            "put that disk back; or boot the live system again, to start over",
        )
        return
    if path in request.begun and _is_ours(manifest, name, found, target):
        return
    busy = [part for part in [found, *above] if target.devices[part]["mountpoints"]]
    holders = [part for part in above if target.devices[part]["kind"] != "part"]
    if device["read_only"]:
        result.refuse("disks", f"has {path} for {name}, which is read-only", "name a disk that can be written to")
    elif busy or holders:
        used = "; ".join(
            f"{part} {' '.join(target.devices[part]['mountpoints'])}".strip()
            for part in dict.fromkeys([*busy, *holders])
        )
        result.refuse(
            "disks", f"has {path} for {name}, which is in use ({used})", "name another, or unmount and close it"
        )
    elif (above or device["table_type"] or device["content"]["type"]) and path not in request.overwrite:
        content = device["table_type"] or device["content"]["type"] or "partitions"
        result.refuse(
            "disks",
            f"has {path} for {name}, which is not empty ({content}: {', '.join(above) or 'no partitions'})",
            f"name an empty disk, or add {path} to bare_metal_overwrite if all that is on it may be lost",
        )


def check_stacks(manifest: Facts, target: Target, request: Request, names: list[str], result: Plan) -> None:
    """Check that everything on these disks can be made."""
    devices = manifest["devices"]
    written = {
        name for path in request.disks.values() for name in (target.find(path), *target.above(target.find(path)))
    }
    present = {device["content"]["uuid"]: name for name, device in target.devices.items() if name not in written}
    for name in names:
        content, kind = devices[name]["content"], devices[name]["kind"]
        if content["type"] not in MADE and name not in request.empty:
            result.refuse(
                "empty",
                f"lacks {name}, which holds {content['type']}: that is not made again",
                f"add {name} to bare_metal_empty: the partition is made, and nothing on it",
            )
        if content["uuid"] and content["uuid"] in present:
            result.refuse(
                "disks",
                f"would make {name} with the UUID {content['uuid']}, which {present[content['uuid']]} has in this machine",
                "take the old disk out: two file systems of one UUID are mistaken for each other",
            )
        if content["type"] == storage.LUKS and name not in request.empty and not request.passphrase:
            result.refuse("passphrase", f"is missing, and {name} was encrypted", "set it: the new one for this device")
        if content["type"] == storage.LUKS and name not in request.empty and len(layout.children(manifest, name)) != 1:
            result.refuse(
                "empty", f"lacks {name}, which was locked when the manifest was made", f"add {name} to bare_metal_empty"
            )
        if content["type"] == "btrfs" and devices[name].get("features", {}).get("devices", 1) != 1:
            result.refuse(
                "empty",
                f"lacks {name}, a btrfs of several devices",
                f"add {name} to bare_metal_empty, and make it by hand",
            )
        if kind in ("crypt", "lvm") and name in target.devices and name not in written:
            result.refuse("disks", f"would make /dev/mapper/{name}, which is there already", "close it, or rename it")
    unmade = layout.unmade_mounts(manifest, [name for name in names if name not in request.empty])
    lost = [
        mount
        for mount in manifest["mounts"]
        if mount["target"] in set(unmade) & set(NEEDED) and mount["type"] not in NETWORK and not result.refusals
    ]
    for mount in lost:
        result.refuse(
            "disks",
            f"has no place for {mount['target']}, which was on {mount.get('source') or mount['type']}: that is not made again",
            "make RAID and ZFS by hand, and restore the files there",
        )
    for point in [] if lost else layout.mount_points(manifest, names):
        outer = next((above for above in unmade if point != above and is_within(point, above)), "")
        if outer and point not in unmade:
            result.refuse(
                "empty",
                f"lacks what holds {point}, which is in {outer}, and that is not made: what is below it is left out",
                f"add the partition of {point} to bare_metal_empty, and restore it by restore_files when the machine runs",
            )
    filled = set(names) - set(request.empty)
    for group, facts in manifest["volume_groups"].items():
        members = layout.devices_of(manifest, group)
        if not members & filled:
            continue
        if not members <= filled:
            result.refuse(
                "disks",
                f"has no place for all of the volume group {group}",
                f"name disks for {', '.join(sorted(members))}, or add those that are made to bare_metal_empty",
            )
        others = [path for path in target.groups.get(group, ()) if target.find(path) not in written]
        if others:
            result.refuse(
                "disks",
                f"would make the volume group {group}, and {', '.join(others)} of this machine has one of that name",
                "take that disk out, or rename its group: vgrename",
            )
        odd = odd_volumes(facts)
        if odd:
            result.refuse(
                "empty",
                f"lacks {', '.join(sorted(members))}, with volumes of {group} that are neither linear nor striped ({', '.join(odd)})",
                "add these devices to bare_metal_empty: thin pools, caches and RAID of LVM are made by hand",
            )


def odd_volumes(group: Facts) -> list[str]:
    """Return the volumes of a group that are not made again."""
    return sorted({v["name"] for v in group["volumes"] if v["type"] not in LINEAR and not v["origin"]})


def check_whole(manifest: Facts, disk: str, here: Facts, request: Request, result: Plan) -> None:
    """Check a disk without a partition table: it is one file system, or a part of something."""
    needed = layout.least(manifest, disk, request.data)
    if needed > here["size"]:
        result.refuse(
            "disks",
            f"{disk} does not fit on {here['path']}: it needs {layout.human(needed)}, and there are {layout.human(here['size'])}",
            "name a larger disk",
        )


def used_disks(manifest: Facts) -> list[str]:
    """Return the disks that hold something. A stick that was plugged in by chance counts if it was mounted."""
    return [
        name
        for name, disk in manifest["disks"].items()
        if disk["table"] or (name in manifest["devices"] and _holds_something(manifest["devices"][name]))
    ]


def _holds_something(device: Facts) -> bool:
    return bool(device["content"]["type"] or device.get("table_type"))

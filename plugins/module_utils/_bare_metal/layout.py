# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sizes of everything on a disk of the manifest, for a disk of another size. Pure arithmetic.

The additional space of a larger disk goes to the largest place for data. On a smaller disk such places shrink, none below what its
files need; if these do not fit, the error has the numbers. Everything begins at a whole MiB: right for every sector size and every SSD.
Only a full disk whose first partition began earlier is as it was, for it would not fit on its like.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._manifest import storage
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest.document import Facts

MIB = 1 << 20
GIB = 1 << 30
# Before the first partition.
HEAD = MIB
# The entries of the second table of GPT, at the end of the disk. A sector with its head follows.
_GPT_ENTRIES = 128 * 128
LVM_HEAD = MIB
EXTENDED = ("5", "f", "85")
DATA = ("ext2", "ext3", "ext4", "xfs", "btrfs")
# Below these, mkfs refuses or the file system is of no use.
_LEAST = {"xfs": 300 * MIB, "btrfs": 256 * MIB}
# As many sectors a table of DOS can number.
_DOS_SECTORS = (1 << 32) - 1


class DoesNotFit(Exception):
    """The content is larger than the disk; the text has the numbers."""


@dataclasses.dataclass(frozen=True)
class Share:
    """A place on a disk: its old size, and its minimum."""

    name: str
    size: int
    least: int

    @property
    def flexible(self) -> bool:
        return self.least < self.size


@dataclasses.dataclass(frozen=True)
class Partition:
    """A partition as it will be, in bytes."""

    number: int
    start: int
    size: int
    row: Facts


def human(size: int) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size / MIB:.0f} MiB"


def children(manifest: Facts, name: str) -> list[str]:
    return [child for child, device in manifest["devices"].items() if name in device["parents"]]


def group_on(manifest: Facts, name: str) -> str:
    """Return the volume group that a device belongs to."""
    path = manifest["devices"][name]["path"]
    for group, facts in manifest["volume_groups"].items():
        if any(device["path"] == path for device in facts["devices"]):
            return str(group)
    return ""


def devices_of(manifest: Facts, group: str) -> set[str]:
    """Return the devices of a volume group."""
    paths = {device["path"] for device in manifest["volume_groups"][group]["devices"]}
    return {name for name, device in manifest["devices"].items() if device["path"] in paths}


def volume_device(group: str, volume: str) -> str:
    """Return the mapper's name of a volume: a hyphen in a name is doubled there."""
    return f"{group.replace('-', '--')}-{volume.replace('-', '--')}"


def mounts_of(manifest: Facts, name: str) -> list[Facts]:
    """Return the mounts of a device's file system, the shallowest first."""
    points = manifest["devices"][name]["mountpoints"]
    found = [mount for mount in manifest["mounts"] if mount["target"] in points]
    return sorted(found, key=lambda mount: (mount["target"].count("/"), mount["target"]))


def mount_points(manifest: Facts, names: t.Iterable[str]) -> list[str]:
    return sorted(mount["target"] for name in names for mount in mounts_of(manifest, name))


def devices_on(manifest: Facts, disks: t.Iterable[str], empty: t.Collection[str] = ()) -> list[str]:
    """Return the devices that are made on these disks, each after its parents; nothing is made on an empty one."""
    found: list[str] = []
    new = [disk for disk in disks if disk in manifest["devices"]]
    while new:
        found += new
        # A device with several parents exists once all of them do.
        new = [
            name
            for name, device in manifest["devices"].items()
            if name not in found
            and device["parents"]
            and set(device["parents"]) <= set(found) - set(empty)
            and not _opened_by_hand(manifest, device)
        ]
    return found


def _opened_by_hand(manifest: Facts, device: Facts) -> bool:
    """Return whether a device is in an encrypted one without a header (VeraCrypt): only swap is made again there, by each boot."""
    headless = any(not manifest["devices"][parent]["content"]["type"] for parent in device["parents"])
    return device["kind"] == "crypt" and headless and device["content"]["type"] != storage.SWAP


def devices_under(manifest: Facts, point: str) -> set[str]:
    """Return the device that is mounted at a point, and all devices that it is on."""
    found = {name for name in manifest["devices"] if point in mount_points(manifest, [name])}
    new = found
    while new:
        new = {parent for name in new for parent in manifest["devices"][name]["parents"]} - found
        found |= new
    return found


def unmade_mounts(manifest: Facts, names: t.Sequence[str]) -> list[str]:
    """Return mount points whose file systems are not made: what the backup has below them would land on the file system above."""
    here = set(mount_points(manifest, names))
    return sorted(mount["target"] for mount in manifest["mounts"] if mount["target"] not in here)


def least(manifest: Facts, name: str, data: t.Mapping[str, int]) -> int:
    """Return the minimum size of a device in bytes. A device whose files say nothing about it keeps its size.

    :param data: bytes by mount point, where fewer files come back than there were.
    """
    device = manifest["devices"][name]
    size, content = device["size"], device["content"]["type"]
    if content == storage.LUKS:
        inner = children(manifest, name)
        return (
            size if len(inner) != 1 else size - manifest["devices"][inner[0]]["size"] + least(manifest, inner[0], data)
        )
    if content == storage.PV:
        group = manifest["volume_groups"].get(group_on(manifest, name))
        if not group or len(group["devices"]) != 1:
            return int(size)
        extent = group["extent_size"]
        extents = sum(share.least for share in volume_shares(manifest, group_on(manifest, name), data))
        return min(size, LVM_HEAD + (extents + 1) * extent)
    mounted = mounts_of(manifest, name)
    if content not in DATA or not mounted or any(mount["target"] == "/boot" for mount in mounted):
        return int(size)
    used = max(data.get(mount["target"], mount["used"]) for mount in mounted)
    room = used + used // 10 + min(GIB, max(64 * MIB, size // 50))
    return int(min(size, max(room, _LEAST.get(content, 0))))


def volume_shares(manifest: Facts, group: str, data: t.Mapping[str, int]) -> list[Share]:
    """Return the volumes of a group, in extents."""
    facts = manifest["volume_groups"][group]
    extent = facts["extent_size"]
    # A manifest of an earlier version has a volume once for each of its segments.
    return list(
        {
            volume["name"]: Share(
                volume["name"],
                -(-volume["size"] // extent),
                -(-least(manifest, volume_device(group, volume["name"]), data) // extent),
            )
            for volume in facts["volumes"]
            if not volume["origin"] and volume_device(group, volume["name"]) in manifest["devices"]
        }.values()
    )


def divide(shares: t.Sequence[Share], room: int, unit: str) -> dict[str, int]:
    """Return sizes that fit into a room: the old ones, or smaller ones if needed.

    :raises DoesNotFit: even the least is too much.
    """
    total, needed = sum(share.size for share in shares), sum(share.least for share in shares)
    if total <= room:
        return {share.name: share.size for share in shares}
    if needed > room:
        raise DoesNotFit(
            f"at least {needed} {unit} are needed ("
            + ", ".join(f"{share.name} {share.least}" for share in shares)
            + f"), and there are {room}"
        )
    # All give of what they have to spare, in proportion.
    spare, available = total - needed, room - needed
    return {share.name: share.least + (share.size - share.least) * available // spare for share in shares}


def lay_out(
    manifest: Facts, disk: str, size: int, sector: int, data: t.Mapping[str, int], grow: str = ""
) -> list[Partition]:
    """Return the partitions of a disk of the manifest on a disk of this size.

    :param grow: the partition that gets what is left over; by default the largest that holds data.
    :raises DoesNotFit: the disk is too small.
    """
    table = manifest["disks"][disk]["table"]
    rows = sorted(table["partitions"], key=lambda row: row["start"])
    plain = [row for row in rows if not is_extended(table, row)]
    shares = []
    for row in plain:
        old = row["size"] * table["sector"]
        # Of something that has no device here, as one that the kernel has not read, nothing is known but its size.
        has_device = row["name"] in manifest["devices"]
        needed = min(old, least(manifest, row["name"], data)) if has_device else old
        shares.append(Share(row["name"], max(1, old // MIB), min(max(1, old // MIB), max(1, -(-needed // MIB)))))
    # Each logical partition has a table of its own before it, and an extended one without any has its own still.
    tables_within = len([row for row in plain if is_logical(table, row)]) or len(rows) - len(plain)
    end = _end(table, size, sector)
    head, needed = HEAD, sum(share.least for share in shares) + tables_within
    if rows and HEAD + needed * MIB > end:
        # A full disk whose first partition began earlier fits on its like.
        head = min(HEAD, max(_least_head(table, sector), -(-rows[0]["start"] * table["sector"] // sector) * sector))
    room = (end - head) // MIB - tables_within
    sizes = divide(shares, room, "MiB")
    growing = grow or default_grow(manifest, [share.name for share in shares])
    if growing in sizes:
        sizes[growing] += room - sum(sizes.values())
    placed = _place(table, rows, {name: mib * MIB for name, mib in sizes.items()}, head)
    last = max((partition.start + partition.size for partition in placed), default=0)
    if last > end:
        # sfdisk would say so on an emptied disk.
        raise DoesNotFit(f"the partitions end at {-(-last // MIB)} MiB, and the disk has room up to {end // MIB}")
    return placed


def _end(table: Facts, size: int, sector: int) -> int:
    """Return where the last partition of a disk ends at most."""
    if table["type"] == "dos":
        return min(size, _DOS_SECTORS * sector // MIB * MIB - MIB)
    return size - tail(table, sector)


def _least_head(table: Facts, sector: int) -> int:
    """Return where the first partition begins at least: after the table."""
    return 2 * sector + _GPT_ENTRIES if table["type"] == "gpt" else sector


def tail(table: Facts, sector: int) -> int:
    """Return what has to stay free at the end of a disk. With a MiB, a full disk would not fit on its like."""
    return _GPT_ENTRIES + sector if table["type"] == "gpt" else 0


def default_grow(manifest: Facts, names: t.Sequence[str]) -> str:
    """Return the largest partition that holds data, or something that holds data; empty if there is none."""

    def holds(name: str) -> bool:
        device = manifest["devices"].get(name)
        if not device or any(mount["target"] == "/boot" for mount in mounts_of(manifest, name)):
            return False
        return device["content"]["type"] in (*DATA, storage.LUKS, storage.PV)

    return max(filter(holds, names), key=lambda name: int(manifest["devices"][name]["size"]), default="")


def is_extended(table: Facts, row: Facts) -> bool:
    return table["type"] == "dos" and row["type"].lower().lstrip("0x") in EXTENDED


def is_logical(table: Facts, row: Facts) -> bool:
    return table["type"] == "dos" and row["number"] > 4


def _place(table: Facts, rows: t.Sequence[Facts], sizes: t.Mapping[str, int], head: int) -> list[Partition]:
    """Place the partitions in the old order, from the head on; an extended partition encloses its logical ones."""
    placed, place = [], head
    logical = [row for row in rows if is_logical(table, row)]
    for row in rows:
        if is_logical(table, row):
            continue
        start = place
        if is_extended(table, row):
            for inner in logical:
                placed.append(Partition(inner["number"], place + MIB, sizes[inner["name"]], inner))
                place += MIB + sizes[inner["name"]]
            # One without any logical partition has its own table still.
            place = max(place, start + MIB)
            placed.append(Partition(row["number"], start, place - start, row))
        else:
            placed.append(Partition(row["number"], start, sizes[row["name"]], row))
            place += sizes[row["name"]]
    return sorted(placed, key=lambda partition: partition.number)


def _quoted(text: str) -> str:
    """Quote a text for sfdisk."""
    return re.sub(r'["\\]', lambda found: f"\\x{ord(found[0]):02x}", text)


def script(table: Facts, partitions: t.Sequence[Partition], sector: int) -> str:
    """Return the table as sfdisk reads it: the same ids, types, names and attributes."""
    lines = [f"label: {table['type']}", f"label-id: {table['id']}", "unit: sectors"]
    if table["type"] == "gpt":
        lines.append(f"first-lba: {min([HEAD, *(partition.start for partition in partitions)]) // sector}")
    lines.append("")
    for partition in partitions:
        row = partition.row
        fields = [
            f"start={partition.start // sector}",
            f"size={partition.size // sector}",
            f"type={row['type']}",
            *([f"uuid={row['uuid']}"] if row["uuid"] else []),
            *([f'name="{_quoted(row["label"])}"'] if row["label"] else []),
            *([f'attrs="{row["attributes"]}"'] if row["attributes"] else []),
            *(["bootable"] if row["bootable"] else []),
        ]
        lines.append(f"p{partition.number} : {', '.join(fields)}")
    return "\n".join(lines) + "\n"

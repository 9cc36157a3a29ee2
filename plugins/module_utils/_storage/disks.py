# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Disks from the output of lsblk, wipefs and blkid. Pure: their output in, disks out."""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import lines
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import unescape_udev

LSBLK = ("lsblk", "--json", "--bytes", "--output", "NAME,PATH,TYPE,SIZE,RO,SERIAL,MODEL,MOUNTPOINTS,UUID,LABEL")
BY_ID = "/dev/disk/by-id"
# Partitions, and what is no disk of its own.
NOT_A_DISK = ("rom", "part", "crypt", "lvm", "dm", "mpath", "md")


@dataclasses.dataclass(frozen=True)
class Content:
    """What a device begins and ends with. ``signatures``: all that wipefs knows; ``kind``: what blkid takes it for."""

    kind: str = ""
    label: str = ""
    uuid: str = ""
    table: str = ""
    table_id: str = ""
    signatures: tuple[str, ...] = ()
    blank: bool = True

    @property
    def empty(self) -> bool:
        """Neither a signature, nor anything else in the first and the last MiB: plain dm-crypt has no signature."""
        return self.blank and not (self.kind or self.table or self.signatures)


@dataclasses.dataclass(frozen=True)
class Device:
    """A disk or a partition. ``names``: all that fstab may call it; ``mounts``: where it is mounted; ``held_by``: the devices on it.

    ``uuid``, ``labels``: what udev knows, also of disks that are not looked into; labels also of the devices on it.
    """

    path: str
    size: int = 0
    content: Content = Content()
    names: frozenset[str] = frozenset()
    mounts: tuple[str, ...] = ()
    held_by: tuple[str, ...] = ()
    uuid: str = ""
    labels: frozenset[str] = frozenset()

    @property
    def uses(self) -> list[str]:
        mounted = ["is swap" if mount == "[SWAP]" else f"is mounted at {mount}" for mount in self.mounts]
        return mounted + [f"holds {name}" for name in self.held_by]


@dataclasses.dataclass(frozen=True)
class Disk(Device):
    """``ids``: its names in /dev/disk/by-id; ``busy``: the kernel lets nobody have it alone.

    ``shared_serial``: another disk has its serial too, as in a USB dock, or as a second namespace of one NVMe controller.
    """

    ids: tuple[str, ...] = ()
    serial: str = ""
    shared_serial: bool = False
    model: str = ""
    read_only: bool = False
    busy: bool = False
    partitions: tuple[Device, ...] = ()

    @property
    def key(self) -> str:
        """Return a name that no other disk has: the serial, or the first id where there is no serial or several disks have it."""
        return self.serial if self.serial and not self.shared_serial else self.ids[0] if self.ids else ""

    def key_as(self, name: str) -> str:
        """Return the name by which the record and confirmations know a disk that the user calls *name*."""
        return self.serial if self.serial and not self.shared_serial else name or self.key

    @property
    def every_use(self) -> list[str]:
        own = [f"{self.path} {use}" for use in self.uses]
        return own + [f"{part.path} {use}" for part in self.partitions for use in part.uses]


def format_size(count: int) -> str:
    """Return a size as disks are sold: in powers of ten."""
    amount, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if amount < 1000 or unit == "PB":
            break
        amount /= 1000
    return f"{amount:.4g} {unit}"


def describe_content(content: Content) -> str:
    """Return a description such as ``ext4 labelled 'photos'``, or the signatures that only wipefs knows."""
    if content.kind:
        return f"{content.kind} labelled {content.label!r}" if content.label else f"{content.kind} without a label"
    if content.signatures:
        return " and ".join(content.signatures)
    return "nothing that is known" if content.blank else "data of no known kind"


def describe_disk(disk: Disk) -> str:
    """Describe the content of a disk for people who decide whether it can be lost."""
    found = [] if disk.content.table and not disk.content.kind else [describe_content(disk.content)]
    if disk.content.table:
        found.append(f"a {disk.content.table} partition table")
    found += [f"{part.path} ({format_size(part.size)}): {describe_content(part.content)}" for part in disk.partitions]
    return ", ".join(found)


def parse_export(text: str) -> dict[str, str]:
    """Return the values of ``blkid --output export``, which escapes special characters of the shell."""
    pairs = lines.parse("blkid", text, {"pair": r"(?P<key>\w+)=(?P<value>.*)"})
    return {pair["key"]: re.sub(r"\\(.)", r"\1", unescape_udev(pair["value"])) for _name, pair in pairs}


def parse_content(blkid: str, wipefs: str, blank: bool) -> Content:
    """Return the content of a device."""
    values = parse_export(blkid)
    found = (json.loads(wipefs) if wipefs.strip() else {}).get("signatures", [])
    return Content(
        kind=values.get("TYPE", ""),
        label=values.get("LABEL", ""),
        uuid=values.get("UUID", ""),
        table=values.get("PTTYPE", ""),
        table_id=values.get("PTUUID", "").lower(),
        # blkid gives up where it finds two; wipefs names both.
        signatures=tuple(dict.fromkeys(entry["type"] for entry in found)),
        blank=blank,
    )


class Listed(t.TypedDict, total=False):
    """A device as ``lsblk --json`` lists it, with those that are made of it."""

    name: str
    path: str
    type: str
    size: int | str
    serial: str | None
    model: str | None
    uuid: str | None
    label: str | None
    ro: bool | str
    mountpoints: list[str | None]
    children: list[Listed]


def _mounts(entry: Listed) -> tuple[str, ...]:
    return tuple(mount for mount in entry.get("mountpoints") or [] if mount)


def _held(children: t.Iterable[Listed]) -> tuple[str, ...]:
    """Yield the devices above a device, all the way up, with their use."""
    found: list[str] = []
    for child in children:
        uses = "".join(f", mounted at {mount}" for mount in _mounts(child))
        found += [f"{child['type']} {child['name']}{uses}", *_held(child.get("children", []))]
    return tuple(found)


def _labels(entry: Listed) -> frozenset[str]:
    """Return the labels of a device and of those on it, such as a volume of LVM, without its partitions."""
    above = [_labels(child) for child in entry.get("children", []) if child["type"] != "part"]
    label = entry.get("label")
    return frozenset().union([label] if label else [], *above)


def parse_disks(lsblk: str, links: t.Mapping[str, str]) -> list[Disk]:
    """Return all disks, without their content.

    :param links: names below /dev/disk, and the paths that they lead to.
    """

    def names(path: str) -> frozenset[str]:
        return frozenset([path, *(link for link, target in links.items() if target == path)])

    disks = []
    listed: list[Listed] = json.loads(lsblk)["blockdevices"]
    rows = [row for row in listed if row["type"] not in NOT_A_DISK and row["size"]]
    serials = [(row.get("serial") or "").strip() for row in rows]
    for entry, serial in zip(rows, serials):
        children = entry.get("children", [])
        links_of = names(entry["path"])
        disks.append(
            Disk(
                path=entry["path"],
                size=int(entry["size"]),
                names=links_of,
                mounts=_mounts(entry),
                held_by=_held(child for child in children if child["type"] != "part"),
                uuid=entry.get("uuid") or "",
                ids=tuple(sorted(link[len(BY_ID) + 1 :] for link in links_of if link.startswith(f"{BY_ID}/"))),
                labels=_labels(entry),
                serial=serial,
                shared_serial=serials.count(serial) > 1,
                model=(entry.get("model") or "").strip(),
                read_only=entry["ro"] in (True, "1"),
                partitions=tuple(
                    Device(
                        path=child["path"],
                        size=int(child["size"]),
                        names=names(child["path"]),
                        mounts=_mounts(child),
                        held_by=_held(child.get("children", [])),
                        uuid=child.get("uuid") or "",
                        labels=_labels(child),
                    )
                    for child in children
                    if child["type"] == "part"
                ),
            )
        )
    return disks


def find(disks: t.Iterable[Disk], name: str, serial: str) -> list[Disk]:
    """Return the disks that an entry may mean: one, unless it is missing or two have the same serial."""
    if serial:
        return [disk for disk in disks if disk.serial == serial]
    return [disk for disk in disks if f"{BY_ID}/{name}" in disk.names]

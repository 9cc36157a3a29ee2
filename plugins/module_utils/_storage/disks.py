# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Disks as lsblk, wipefs and blkid tell of them. Pure: their words in, disks out."""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

LSBLK = ("lsblk", "--json", "--bytes", "--output", "NAME,PATH,TYPE,SIZE,RO,SERIAL,MODEL,MOUNTPOINTS,UUID")
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
    """A disk or a partition. ``names``: all that fstab may call it; ``mounts``: where it is mounted; ``held_by``: what lies upon it.

    ``uuid``: what udev knows, also of disks that are not looked into.
    """

    path: str
    size: int = 0
    content: Content = Content()
    names: frozenset[str] = frozenset()
    mounts: tuple[str, ...] = ()
    held_by: tuple[str, ...] = ()
    uuid: str = ""

    @property
    def uses(self) -> list[str]:
        mounted = ["is swap" if mount == "[SWAP]" else f"is mounted at {mount}" for mount in self.mounts]
        return mounted + [f"holds {name}" for name in self.held_by]


@dataclasses.dataclass(frozen=True)
class Disk(Device):
    """``ids``: its names in /dev/disk/by-id; ``busy``: the kernel lets nobody have it alone."""

    ids: tuple[str, ...] = ()
    serial: str = ""
    model: str = ""
    read_only: bool = False
    busy: bool = False
    partitions: tuple[Device, ...] = ()

    @property
    def key(self) -> str:
        """What a wipe is confirmed by: the serial, or the first id of a disk that tells none."""
        return self.serial or (self.ids[0] if self.ids else "")

    @property
    def every_use(self) -> list[str]:
        own = [f"{self.path} {use}" for use in self.uses]
        return own + [f"{part.path} {use}" for part in self.partitions for use in part.uses]


def size_words(count: int) -> str:
    """As disks are sold: powers of ten."""
    amount, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if amount < 1000 or unit == "PB":
            break
        amount /= 1000
    return f"{amount:.4g} {unit}"


def content_words(content: Content) -> str:
    """``ext4 labelled 'photos'``, or the signatures that only wipefs knows."""
    if content.kind:
        return f"{content.kind} labelled {content.label!r}" if content.label else f"{content.kind} without a label"
    if content.signatures:
        return " and ".join(content.signatures)
    return "nothing that is known" if content.blank else "data of no known kind"


def disk_words(disk: Disk) -> str:
    """What is on a disk, for those who decide whether it may go."""
    found = [] if disk.content.table and not disk.content.kind else [content_words(disk.content)]
    if disk.content.table:
        found.append(f"a {disk.content.table} partition table")
    found += [f"{part.path} ({size_words(part.size)}): {content_words(part.content)}" for part in disk.partitions]
    return ", ".join(found)


def parse_export(text: str) -> dict[str, str]:
    """The words of ``blkid --output export``, whose values escape what a shell would take for its own."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key: re.sub(r"\\(.)", r"\1", value) for key, value in pairs}


def parse_content(blkid: str, wipefs: str, blank: bool) -> Content:
    """:param blkid: of ``blkid --probe --output export``, :param wipefs: of ``wipefs --no-act --json``."""
    told = parse_export(blkid)
    found = (json.loads(wipefs) if wipefs.strip() else {}).get("signatures", [])
    return Content(
        kind=told.get("TYPE", ""),
        label=told.get("LABEL", ""),
        uuid=told.get("UUID", ""),
        table=told.get("PTTYPE", ""),
        table_id=told.get("PTUUID", "").lower(),
        # blkid gives up where it finds two; wipefs names both.
        signatures=tuple(dict.fromkeys(entry["type"] for entry in found)),
        blank=blank,
    )


def _mounts(entry: t.Mapping[str, t.Any]) -> tuple[str, ...]:
    return tuple(mount for mount in entry.get("mountpoints") or [] if mount)


def _held(children: t.Iterable[t.Mapping[str, t.Any]]) -> tuple[str, ...]:
    """What lies upon a device, all the way up, with what that is used for."""
    found: list[str] = []
    for child in children:
        uses = "".join(f", mounted at {mount}" for mount in _mounts(child))
        found += [f"{child['type']} {child['name']}{uses}", *_held(child.get("children", []))]
    return tuple(found)


def parse_disks(lsblk: str, links: t.Mapping[str, str]) -> list[Disk]:
    """All disks, without what is on them.

    :param links: names below /dev/disk, and the paths that they lead to.
    """

    def names(path: str) -> frozenset[str]:
        return frozenset([path, *(link for link, target in links.items() if target == path)])

    disks = []
    for entry in json.loads(lsblk)["blockdevices"]:
        if entry["type"] in NOT_A_DISK or not entry["size"]:
            continue
        children = entry.get("children", [])
        known = names(entry["path"])
        disks.append(
            Disk(
                path=entry["path"],
                size=int(entry["size"]),
                names=known,
                mounts=_mounts(entry),
                held_by=_held(child for child in children if child["type"] != "part"),
                uuid=entry.get("uuid") or "",
                ids=tuple(sorted(link[len(BY_ID) + 1 :] for link in known if link.startswith(f"{BY_ID}/"))),
                serial=(entry.get("serial") or "").strip(),
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
                    )
                    for child in children
                    if child["type"] == "part"
                ),
            )
        )
    return disks


def find(disks: t.Iterable[Disk], name: str, serial: str) -> list[Disk]:
    """The disks that an entry may mean: one, unless it is not there or two have the same serial."""
    if serial:
        return [disk for disk in disks if disk.serial == serial]
    return [disk for disk in disks if f"{BY_ID}/{name}" in disk.names]

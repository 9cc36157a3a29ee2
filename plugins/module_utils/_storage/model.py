# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Disks, mount points and what has to be done to them, as data."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import fstab
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.disks import (
    Disk,
    describe_disk,
    format_size,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.request import (
    FILE_SYSTEMS,
    Entry,
)


@dataclasses.dataclass(frozen=True)
class Point:
    """A directory to mount at, as it is below the mount. ``immutable``: None where its file system does not know that."""

    exists: bool = False
    directory: bool = True
    names: tuple[str, ...] = ()
    immutable: bool | None = False


@dataclasses.dataclass(frozen=True)
class Mounted:
    source: str
    options: frozenset[str] = frozenset()


# What is on record of a disk: the ids of its file system, table and partition, its size when they were made, whether mkfs was begun and all
# of it finished, where it is mounted, with which options, and the directories that were made for that.
RECORDED = ("uuid", "table", "part", "size", "making", "finished", "mount", "options", "made")


class Given(t.TypedDict, total=False):
    """What is on record of a disk, with the keys of RECORDED."""

    uuid: str
    table: str
    part: str
    size: int
    making: bool
    finished: bool
    mount: str
    options: str
    made: list[str]  # kept: a key of the file on hosts


@dataclasses.dataclass(frozen=True)
class Facts:
    disks: tuple[Disk, ...] = ()
    mounted: t.Mapping[str, Mounted] = dataclasses.field(default_factory=dict)
    points: t.Mapping[str, Point] = dataclasses.field(default_factory=dict)
    fstab: str = ""
    record: t.Mapping[str, Given] = dataclasses.field(default_factory=dict)
    # Features of ext4, by device; what the kernel is built with, where it publishes that.
    features: t.Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    kernel: t.Mapping[str, bool] = dataclasses.field(default_factory=dict)
    # Devices whose making is on record as not finished, and that have files all the same.
    filled: t.Collection[str] = ()


@dataclasses.dataclass
class Work:
    """A disk and what is to be done to it. ``device`` is empty as long as the partition is not there."""

    entry: Entry
    disk: Disk
    key: str
    given: Given
    device: str = ""
    wipe: bool = False
    table: bool = False
    make: bool = False
    protect: bool = False
    mount: bool = False
    remount: bool = False
    again: bool = False

    @property
    def destroys(self) -> bool:
        return self.wipe or self.table or self.make

    @property
    def line(self) -> str:
        entry = self.entry
        return fstab.line(
            f"UUID={self.given['uuid']}", entry.mount, entry.fs, entry.options, FILE_SYSTEMS[entry.fs].check
        )

    @property
    def todo(self) -> list[str]:
        entry, disk = self.entry, self.disk
        steps = {
            f"wipe {disk.path} ({self.key}): {describe_disk(disk)}": self.wipe,
            f"partition {disk.path} ({self.key}, {format_size(disk.size)})": self.table,
            f"make {entry.fs} labelled {entry.label!r} on {disk.path} ({self.key}, {format_size(disk.size)})": self.make,
            f"protect {entry.mount} while nothing is mounted there": self.protect,
            f"mount {entry.mount}": self.mount,
            f"mount {entry.mount} with other options": self.remount or self.again,
        }
        return [step for step, so in steps.items() if so]


@dataclasses.dataclass
class Plan:
    works: list[Work] = dataclasses.field(default_factory=list)
    gone: dict[str, Given] = dataclasses.field(default_factory=dict)
    fstab: str = ""
    requirements: list[Problem] = dataclasses.field(default_factory=list)
    record: dict[str, Given] = dataclasses.field(default_factory=dict)

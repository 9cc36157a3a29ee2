# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records of what the cache holds: datasets, copies, staging directories."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.folder import Flock, Folder
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.settings import ALGORITHMS
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.text import is_name

GENERATION = r"g\d{6,18}"


class Record(t.NamedTuple):
    """What is known of a whole copy; its file is written last."""

    source: str
    name: str
    fingerprint: str
    copy_fingerprint: str
    algorithm: str
    hash: str
    manifest: str
    bytes: int
    disk: int
    files: int
    made: float  # kept: a key of records on the disk
    user: str
    version: str
    whole: bool

    @classmethod
    def read(cls, folder: Folder) -> Record | None:
        try:
            record = cls(**folder.json("record.json"))
        except TypeError:
            return None
        sound = all(isinstance(value, str) for value in record[:7]) and all(
            isinstance(n, (int, float)) and 0 <= n < 1 << 62 for n in record[7:11]
        )
        sound = sound and record.algorithm in ALGORITHMS and is_name(record.source)
        named = sound and record.name not in ("", ".", "..") and "/" not in record.name and is_name(record.name)
        return record if named and record.whole is True else None


class Copy(t.NamedTuple):
    """A whole copy, or what once was one. *owner* is -1 where root does not remove it."""

    set: str
    name: str
    path: str
    record: Record | None
    damaged: str
    owner: int

    @property
    def disk(self) -> int:
        return self.record.disk if self.record else 0


class ManifestRow(t.TypedDict, total=False):
    """An entry of a copy, as its manifest has it: size and hash are of a file, the target is of a link."""

    path: str
    kind: str
    size: int
    hash: str
    target: str


class Staging(t.NamedTuple):
    set: str
    name: str
    owner: int
    need: int
    done: int
    state: dict[str, t.Any]


class Dataset(t.NamedTuple):
    """What the cache has of one source."""

    set: str
    source: str
    number: int
    used: float
    pin: str
    copies: list[Copy]
    staging: list[Staging]
    trash: list[Copy]

    def current(self) -> Copy | None:
        return next((copy for copy in self.copies if copy.record and not copy.damaged), None)


class Victim(t.NamedTuple):
    kind: str  # trash, staging, copy
    set: str
    name: str
    disk: int
    owner: int
    why: str
    source: str


class Held(t.NamedTuple):
    """A copy that nobody removes while *lock* is held."""

    set: str
    copy: str
    path: str
    lock: Flock


def copy_name(copy: Copy) -> str:
    return t.cast(Record, copy.record).name


def as_count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 62 else 0

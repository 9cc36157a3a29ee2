# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Eviction: what goes first when copies need room, and its removal."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.copies import Copies
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.failures import NoRoom
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.folder import Folder
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.records import (
    Copy,
    Dataset,
    Staging,
    Victim,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.text import (
    format_size,
    read_size,
    say,
    shown,
)


class Eviction(Copies):
    """The cache as a place with limited room."""

    def victims(self, datasets: list[Dataset], is_used: t.Callable[[Copy], bool]) -> t.Iterator[Victim]:
        """Yield what can be removed, in this order. *is_used* reports whether a copy is in use."""
        for dataset in datasets:
            for copy in dataset.trash:
                # The owner of a dataset can rename what another reads.
                if is_used(copy):
                    continue
                yield Victim("trash", copy.set, copy.name, copy.disk, copy.owner, "removed before", dataset.source)
            for staging in dataset.staging:
                if not self.is_making(staging):
                    why = "left by a process that was killed"
                    yield Victim("staging", staging.set, staging.name, staging.need, staging.owner, why, dataset.source)
        for dataset in datasets:
            # What is pinned keeps its copies, damaged ones too, until there is a whole one.
            for copy in dataset.copies if dataset.current() or not dataset.pin else ():
                if copy is not dataset.current() and not is_used(copy):
                    why = "damaged" if copy.damaged or not copy.record else "older than its source"
                    yield Victim("copy", copy.set, copy.name, copy.disk, copy.owner, why, dataset.source)
        for dataset in sorted(datasets, key=lambda dataset: (dataset.number, dataset.used, dataset.set)):
            current = dataset.current()
            if current and not dataset.pin and not is_used(current):
                why = "used longest ago"
                yield Victim("copy", current.set, current.name, current.disk, current.owner, why, dataset.source)

    def is_making(self, staging: Staging) -> bool:
        """Return whether a process makes this copy. The owner of SET.make can exchange it: the process holds the folder, too."""
        lock = self.try_lock(staging.set, "make")
        if lock is None:
            return True
        with lock, self.opened(staging.set) as folder:
            return folder is None or self.is_live(folder, staging.name)

    def is_used(self, copy: Copy) -> bool:
        lock = self.try_lock(copy.set, "lock")
        if lock is None:
            return True
        with lock, self.opened(copy.set) as folder:
            return folder is None or bool(self.users(folder, copy))

    def missing(self, datasets: list[Dataset], need: int) -> int:
        """Return the bytes that have to be freed before *need* more fit."""
        whole, free = self.size()
        quota, floor = read_size(self.settings.quota, whole), read_size(self.settings.free, whole)
        promised = sum(max(0, staging.need - staging.done) for dataset in datasets for staging in dataset.staging)
        if need > quota:
            raise NoRoom(f"{format_size(need)} are more than the quota of {format_size(quota)} (`quota`)")
        return max(self.used(datasets) + need - quota, need + promised + floor - free)

    def removable(self, victim: Victim) -> bool:
        if (victim.set, victim.name) in self.stuck:
            return False
        return victim.owner >= 0 and os.geteuid() in (0, victim.owner)

    def plan(self, need: int) -> list[Victim]:
        """Return what has to be removed before *need* bytes fit; the caller holds the lock of the room.

        :raises NoRoom: not enough can go; then nothing should.
        """
        datasets = self.datasets()
        missing = self.missing(datasets, need)
        chosen: list[Victim] = []
        freed = others = 0
        for victim in self.victims(datasets, self.is_used) if missing > 0 or need == 0 else ():
            rest = victim.kind != "copy" or victim.why == "damaged"
            if freed >= missing and not (need == 0 and rest):
                continue
            if not self.removable(victim):
                others += victim.disk
                continue
            chosen.append(victim)
            freed += victim.disk
        if freed < missing:
            message = f"{format_size(missing - freed)} more would have to be free, and what is left is pinned, in use or not ours"
            if others:
                message += (
                    f"; {format_size(others)} of other users can go by root's `dataset-cache evict --need {need}`"
                )
            raise NoRoom(message, freed + others >= missing)
        return chosen

    def make_room(self, need: int, report: t.Callable[[Victim], None]) -> None:
        """Make room for *need* bytes; the caller holds the lock of the room."""
        for _attempt in range(5):
            victims = self.plan(need)
            if not victims:
                return
            for victim in victims:
                if self.dropped(victim):
                    report(victim)
            if need == 0 and self.missing(self.datasets(), 0) <= 0:
                return
        raise NoRoom("others use up what is freed; try again")

    def dropped(self, victim: Victim) -> bool:
        """Remove one victim. One that a user has made impossible to remove does not stop root from removing others."""
        try:
            return self.drop(victim)
        except OSError as error:
            if not self.guest:
                raise
            say(f"{shown(self.at('sets', victim.set, victim.name))} cannot be removed: {error.strerror}")
            self.stuck.add((victim.set, victim.name))
            return False

    def drop(self, victim: Victim) -> bool:
        """Remove one victim, unless a process uses it by now; the caller holds the lock of the room."""
        with self.opened(victim.set) as folder:
            if folder is None:
                return False
            if victim.kind == "staging":
                lock = self.try_lock(victim.set, "make")
                if lock is None:
                    return False
                with lock:
                    if self.is_live(folder, victim.name):
                        return False
                    self.discard(folder, victim.name)
            else:
                if victim.kind == "trash" and self.is_used(Copy(victim.set, victim.name, "", None, "", victim.owner)):
                    return False
                trash = victim.name
                if victim.kind == "copy":
                    lock = self.try_lock(victim.set, "lock")
                    if lock is None:
                        return False
                    with lock:
                        copy = self.copy(folder, victim.set, victim.name)
                        if copy is None or self.users(folder, copy):
                            return False
                        current = self.read(folder, victim.set).current()
                        if folder.read("pin") and (current is None or current.name == victim.name):
                            return False
                        trash = f".trash-{victim.name}-{secrets.token_hex(4)}"
                        with self.acting_as(copy.owner):
                            os.rename(victim.name, trash, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
                            with contextlib.suppress(OSError):
                                folder.unlink(f"{victim.name}.damaged")
                self.discard(folder, trash)
        self.try_close(victim.set)
        return True

    def discard(self, above: Folder, name: str) -> None:
        """Remove a folder with all that is in it."""
        with above.folder(name) as folder:
            owner = self.owner(folder)
            if owner < 0:
                raise OSError(errno.EPERM, "others may write to it: it may be no copy", name)
            with self.acting_as(owner):
                folder.empty("data")
            with self.acting_as(owner if above is not self.top else 0):
                os.rmdir(name, dir_fd=above.fd)

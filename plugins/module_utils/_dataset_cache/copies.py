# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copies that are served: they are found, checked, held, leased, and marked when they are damaged."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.failures import Exit, Failed
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.folder import Flock, Folder
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.leases import Lease
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.records import (
    Copy,
    Held,
    Record,
    copy_name,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.sources import (
    Source,
    reads_as_corrupt,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.store import NO_FOLDER, Store
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.text import say, shown
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.tree import Fingerprint, walk

# What may be left in a dataset of which no copy is left.
ENDINGS = re.compile(r"~\d*$|\.damaged$")
# The largest number of a use that is read.
LAST = 10**18 - 1


class Copies(Store):
    """The cache as a place that serves copies."""

    def touch(self, folder: Folder) -> None:
        """Record a use by a number that only grows; the time of day is for people."""
        # A full disk is no reason not to serve what is on it.
        with contextlib.suppress(OSError), self.writing(folder):
            folder.write("used", f"{min(max(self.numbers(), default=0) + 1, LAST)} {int(time.time())}\n")

    def numbers(self) -> list[int]:
        found = []
        for name in self.names():
            with self.opened(name) as folder:
                number = ((folder and folder.read("used")) or "").partition(" ")[0]
            found.append(int(number) if re.fullmatch(r"\d{1,18}", number, re.ASCII) else 0)
        return found

    def open_set(self, source: Source) -> Folder:
        """Open the folder of a dataset and make it where it is missing; the caller holds its lock."""
        if self.guest:
            raise self.refusal(source)
        mode = self.sets.status.st_mode & 0o7777
        folder = self.sets.make(source.set, mode, self.gid)
        try:
            folder.make("leases", mode, self.gid).close()
            if folder.json("source") != source.path:
                folder.write("source", json.dumps(source.path))
        except BaseException:
            folder.close()
            raise
        return folder

    def refusal(self, source: Source) -> Failed:
        return Failed(
            Exit.CACHE,
            f"root makes nothing in a cache of users, and it has no copy of {shown(source.path)} that root or the owner of "
            "the source made: run it as a member of the group",
        )

    def close_sets(self) -> None:
        """Forget all datasets of which nothing is left: who removed the last copy may not have been who made the dataset."""
        for dataset in self.datasets() if self.guest else ():
            if not (dataset.pin or dataset.copies or dataset.staging or dataset.trash):
                self.try_close(dataset.set)

    def try_close(self, name: str) -> None:
        lock = self.try_lock(name, "lock")
        if lock:
            with lock, contextlib.suppress(OSError):
                self.close_set(name)

    def close_set(self, name: str) -> None:
        """Forget a dataset of which nothing is left; called with its lock."""
        with self.opened(name) as folder:
            if folder is None or folder.read("pin"):
                return
            items = folder.names()
            if not all(item in ("leases", "pin", "source", "used") or ENDINGS.search(item) for item in items):
                return
            with contextlib.suppress(OSError), self.acting_as(folder.status.st_uid):
                for item in items:
                    if item == "leases":
                        with folder.folder(item) as leases:
                            for lease in leases.names():
                                leases.unlink(lease)
                        os.rmdir(item, dir_fd=folder.fd)
                    else:
                        folder.unlink(item)
                os.rmdir(name, dir_fd=self.sets.fd)

    def find(self, source: Source, fingerprint: str | None) -> Held | None:
        """Return a whole copy that was checked and is held: of the source as it is now, or with no fingerprint of any state."""
        while True:
            with self.opened(source.set) as folder:
                if folder is None:
                    return None
                with self.lock(source.set, "lock"):
                    held = self.hold(folder, source, fingerprint)
                if held is None:
                    return None
                copy, lock = held
                wrong = self.wrong(folder, copy)
                with self.lock(source.set, "lock"):
                    if not wrong:
                        self.touch(folder)
                        return Held(copy.set, copy.name, os.path.join(copy.path, "data", copy_name(copy)), lock)
                    self.mark_damaged(folder, copy, wrong)
                lock.release()

    def hold(self, folder: Folder, source: Source, fingerprint: str | None) -> tuple[Copy, Flock] | None:
        """Lock the newest copy that may be served; the caller holds the lock of its dataset."""
        trusted_owners = self.trusted_owners(source.path)
        if trusted_owners is not None and folder.status.st_uid not in trusted_owners:
            # Its owner can put something else in the place of a copy.
            return None
        for copy in self.read(folder, source.set).copies:
            if not copy.record or copy.damaged or copy.record.source != source.path:
                continue
            if fingerprint in (None, copy.record.fingerprint) and (
                trusted_owners is None or copy.owner in trusted_owners
            ):
                lock = self.share(folder, copy)
                if lock:
                    return copy, lock
        return None

    def trusted_owners(self, source: str) -> set[int] | None:
        """Return the users whose copies are served; None for all users."""
        if os.geteuid() != 0:
            return None
        try:
            return {0, os.stat(source).st_uid}
        except OSError:
            return {0}

    def share(self, folder: Folder, copy: Copy) -> Flock | None:
        """Keep a copy, as `run` does."""
        with contextlib.suppress(OSError), folder.folder(copy.name) as copied:
            # Nobody who works as this program does holds it otherwise here.
            return Flock.take(copied.file("use"), fcntl.LOCK_SH, wait=False)
        return None

    def wrong(self, folder: Folder, copy: Copy) -> str:
        """Return what names, sizes and times of a copy show to be wrong with it; `verify` checks the content."""
        found = Fingerprint()
        try:
            with folder.folder(copy.name) as copied, copied.folder("data") as data:
                for entry in walk(os.path.join(data.path, copy_name(copy))):
                    found.add(entry)
        except OSError as error:
            if reads_as_corrupt(error) or error.errno in NO_FOLDER:
                return f"it cannot be read: {error.strerror}"
            raise
        fingerprint = t.cast(Record, copy.record).copy_fingerprint
        return "" if found.hash.hexdigest() == fingerprint else "names, sizes or times in it have changed"

    def mark_damaged(self, folder: Folder, copy: Copy, why: str) -> None:
        """Mark a copy so that it is never served again; the caller holds the lock of its dataset."""
        say(f"the copy {shown(copy.path)} is not used any more: {why}")
        self.rejected.add((folder.status.st_ino, copy.name))
        try:
            with self.writing(folder):
                folder.replace(f"{copy.name}.damaged", why, durable=True)
        except OSError as error:
            say(f"other users get no notice of it: {error.strerror}")

    def lease(self, held: Held, pid: int) -> None:
        """Keep a copy for a process; dead leases go on the way."""
        with self.lock(held.set, "lock"), self.opened(held.set) as folder:
            try:
                if folder is None:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
                with folder.folder("leases") as leases, self.writing(leases):
                    for name in leases.names():
                        old = Lease.read(name)
                        if old is None or not old.holds(self.settings.lease_hours):
                            with contextlib.suppress(OSError):
                                leases.unlink(name)
                    os.close(leases.file_or_new(Lease.of(held.copy, pid).file))
            except ProcessLookupError:
                raise Failed(Exit.USAGE, f"there is no process {pid} to keep the copy for (--pid)") from None
            except OSError as error:
                say(f"the copy may be evicted while it is used: {error.strerror}")

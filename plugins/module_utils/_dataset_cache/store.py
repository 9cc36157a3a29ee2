# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The directories of the cache, and what is in them.

In the cache directory:

locks/               itself locked by the process that counts, reserves or frees space
locks/SET.lock        held for moments by processes that serve, lease or rename
locks/SET.make        held by the one process that copies this dataset
requests/             bytes that users ask root's `evict --requests` to free
sets/SET/             a dataset: its name and a hash of its path
    source            the path, as JSON
    pin, used         who pinned it; number and time of the last use
    leases/           a file for each process that `get` was run for
    g000001/          a copy: `data/NAME`, `manifest`, `record.json`, and `use`, which `run` locks
    g000001.damaged   why this copy is never served again; by root, its owner or the dataset's owner
    .staging-*        a copy that is being made, locked by its maker; without locks on it and on SET.make, a remainder of a killed process
    .trash-*          a copy that is being removed
.odd-*                folders of users that did not belong to the cache and that root moved out of it

Users of a group share a cache that root made for them: only root writes the cache directory itself, and `locks`, `requests`, `sets` and
each dataset are sticky. Every part of a path is opened by the descriptor of the folder above, and no link is followed. Root makes nothing
there, and changes what a user owns with this user's rights only.

A copy becomes one by the rename of its staging directory, after everything in it is on disk. All locks are flocks: the kernel lets go of
them however a process ends. Their order is make, room, lock.
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import re
import stat
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.failures import Exit, Failed
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.folder import FOLDER, Flock, Folder
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.leases import (
    Lease,
    lockers,
    process_name,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.records import (
    GENERATION,
    Copy,
    Dataset,
    Record,
    Staging,
    as_count,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.settings import Settings
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.sources import is_inside
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.text import say, shown

FOLDERS = ("locks", "requests", "sets")
POLL_S = 0.1
# How long root waits for a lock that a user may hold for ever.
LOCK_S = 20.0
CACHEDIR_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# Copies of datasets, made by dataset-cache.\n"
NOBODY = 65534
NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def open_to_others(status: os.stat_result) -> bool:
    """Return whether users other than root can replace a directory, or put something into it."""
    return status.st_uid != 0 or bool(status.st_mode & 0o002) or bool(status.st_mode & 0o020 and status.st_gid)


def is_sticky(status: os.stat_result) -> bool:
    return bool(status.st_mode & stat.S_ISVTX) or not status.st_mode & 0o022


class Store:
    """The directories of the cache: access to them, locks, and what they hold."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.path = os.path.realpath(settings.cache)
        self.gid: int | None = None
        if settings.group:
            try:
                self.gid = grp.getgrnam(settings.group).gr_gid
            except KeyError:
                raise Failed(Exit.USAGE, f"there is no group {settings.group} (`group`)") from None
        if not os.path.isdir(self.path):
            raise Failed(Exit.CACHE, f"{self.path} is no directory: is its disk mounted?")
        mount = settings.mount
        if mount and not (os.path.ismount(mount) and is_inside(self.path, os.path.realpath(mount))):
            raise Failed(Exit.CACHE, f"nothing is mounted at {mount}, where the cache is to be")
        self.top = Folder.at(self.path)
        mode = 0o700 if self.gid is None else 0o3770
        may_create = not (os.geteuid() == 0 and open_to_others(self.top.status))
        self.locks, self.requests, self.sets = (
            self.top.make(name, mode, self.gid) if may_create else self.top.folder(name) for name in FOLDERS
        )
        # Root in a cache of users.
        self.guest = os.geteuid() == 0 and any(
            open_to_others(folder.status) for folder in (self.top, self.locks, self.requests, self.sets)
        )
        self.stuck: set[tuple[str, str]] = set()
        # Copies that this process found to be wrong, whether or not it may say so to others.
        self.rejected: set[tuple[int, str]] = set()
        if self.guest:
            self.require_safe()
            return
        with contextlib.suppress(OSError):
            if not self.top.lstat("CACHEDIR.TAG"):
                self.top.replace("CACHEDIR.TAG", CACHEDIR_TAG)

    def require_safe(self) -> None:
        """Only root may write the directory itself, and in those of users each may change only what is theirs."""
        wrong = [self.path] if open_to_others(self.top.status) else []
        for name, folder in zip(FOLDERS, (self.locks, self.requests, self.sets)):
            if folder.status.st_uid != 0 or not is_sticky(folder.status):
                wrong.append(self.at(name))
        if wrong:
            raise Failed(
                Exit.CACHE,
                f"root does not work where users can exchange directories: {', '.join(map(shown, wrong))}. Run the role "
                "storage again, or see docs/dataset_cache.md",
            )

    def at(self, *parts: str) -> str:
        """Return a path for messages."""
        return os.path.join(self.path, *parts)

    def size(self) -> tuple[int, int]:
        """Return the bytes of the file system, and those that are free to users."""
        found = os.fstatvfs(self.top.fd)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    @contextlib.contextmanager
    def acting_as(self, uid: int) -> t.Iterator[None]:
        """Work with the rights of a user and the group: root changes folders of users only this way."""
        if not self.guest or uid == 0 or os.geteuid() != 0:
            yield
            return
        groups = os.getgroups()
        os.setgroups([])
        os.setegid(self.sets.status.st_gid)
        os.seteuid(uid)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)
            os.setgroups(groups)

    def writing(self, folder: Folder) -> t.ContextManager[None]:
        """Write in a folder with the rights of its owner, or of nobody where root owns it, and of the group."""
        return self.acting_as(folder.status.st_uid or NOBODY)

    def lock_file(self, name: str, kind: str) -> int:
        file = f"{name}.{kind}"
        if not self.guest:
            return self.locks.file_or_new(file)
        try:
            return self.locks.file(file)
        except FileNotFoundError:
            with self.opened(name) as folder:
                if folder is None:
                    raise
                with self.writing(folder):
                    return self.locks.file_or_new(file)

    def take(self, name: str, kind: str, wait: bool = False) -> Flock | None:
        while True:
            fd = self.lock_file(name, kind)
            status = os.fstat(fd)
            if status.st_uid == os.geteuid() and status.st_mode & 0o020:
                os.fchmod(fd, 0o640)  # made by an older release
            lock = Flock.take(fd, wait=wait)
            if lock is None:
                return None
            now = self.locks.lstat(f"{name}.{kind}")
            if now and (now.st_dev, now.st_ino) == (status.st_dev, status.st_ino):
                return lock
            # It was removed meanwhile: who comes later would have another one.
            lock.release()

    def lock(self, name: str, kind: str) -> Flock:
        """Wait for a lock; never called with the lock of the room, which others would wait for too."""
        if not self.guest:
            return t.cast(Flock, self.take(name, kind, wait=True))
        return self.patient(lambda: self.take(name, kind), self.at("locks", f"{name}.{kind}"))

    def try_lock(self, name: str, kind: str) -> Flock | None:
        """Return a lock; None where another process has it. A lock that a user made unusable blocks this dataset alone."""
        try:
            return self.take(name, kind)
        except OSError:
            return None

    def patient(self, take: t.Callable[[], Flock | None], path: str) -> Flock:
        """Wait for a lock as root: not for ever, as a user may hold it."""
        end = time.monotonic() + LOCK_S
        while True:
            lock = take()
            if lock:
                return lock
            if time.monotonic() >= end:
                raise Failed(Exit.BUSY, f"somebody holds the lock {shown(path)}: lslocks shows its process")
            time.sleep(POLL_S)

    def room(self) -> Flock:
        """Lock a folder that always exists and that nobody can exchange."""

        def take(wait: bool = False) -> Flock | None:
            return Flock.take(os.open(".", FOLDER, dir_fd=self.locks.fd), wait=wait)

        return self.patient(take, self.at("locks")) if self.guest else t.cast(Flock, take(wait=True))

    @contextlib.contextmanager
    def opened(self, name: str) -> t.Iterator[Folder | None]:
        """Open the folder of a dataset; None where it is missing, or where root must not use it."""
        try:
            folder = self.sets.folder(name)
        except OSError as error:
            if error.errno not in (*NO_FOLDER, errno.EACCES):
                raise
            yield None
            return
        with folder:
            yield None if self.guest and not is_sticky(folder.status) else folder

    def names(self) -> list[str]:
        return [name for name in self.sets.names() if not name.startswith(".")]

    def datasets(self) -> list[Dataset]:
        found = []
        for name in self.names():
            try:
                dataset = self.dataset(name)
            except OSError as error:
                if (name, "") not in self.stuck:
                    say(f"{shown(self.at('sets', name))} cannot be read: {error.strerror}")
                self.stuck.add((name, ""))
                continue
            if dataset:
                found.append(dataset)
        return found

    def dataset(self, name: str) -> Dataset | None:
        with self.opened(name) as folder:
            return self.read(folder, name) if folder else None

    def read(self, folder: Folder, name: str) -> Dataset:
        copies: list[Copy] = []
        trash: list[Copy] = []
        staging = []
        for item in folder.names():
            if re.fullmatch(GENERATION, item, re.ASCII) or item.startswith(".trash-"):
                copy = self.copy(folder, name, item)
                if copy:
                    (trash if item.startswith(".") else copies).append(copy)
            elif item.startswith(".staging-"):
                with contextlib.suppress(OSError), folder.folder(item) as stage:
                    moved = stage.status.st_uid != folder.status.st_uid and stage.lstat("record.json")
                    if moved and not self.is_live(folder, item):
                        # A whole copy, which the owner of the dataset may have renamed.
                        trash.append(t.cast(Copy, self.copy(folder, name, item)))
                        continue
                    state = stage.json("progress")
                    state = state if isinstance(state, dict) else {}
                    need, done = as_count(stage.json("need")), as_count(state.get("written"))
                    staging.append(Staging(name, item, self.owner(stage), need, done, state))
        number, _space, used = (folder.read("used") or "").strip().partition(" ")
        source = folder.json("source")
        return Dataset(
            name,
            source if isinstance(source, str) else "",
            int(number) if re.fullmatch(r"\d{1,18}", number, re.ASCII) else 0,
            float(used) if re.fullmatch(r"\d{1,11}", used, re.ASCII) else 0.0,
            folder.read("pin") or "",
            sorted(copies, key=lambda copy: -int(copy.name[1:])),
            staging,
            trash,
        )

    def owner(self, folder: Folder) -> int:
        """Return the owner. A folder that others can write may have been moved here: root does not remove it."""
        return -1 if self.guest and folder.status.st_mode & 0o022 else folder.status.st_uid

    def copy(self, folder: Folder, name: str, item: str) -> Copy | None:
        """One copy; None when it is gone, or no folder."""
        path = self.at("sets", name, item)
        try:
            with folder.folder(item) as copied:
                damaged = self.mark(folder, item, copied.status.st_uid)
                return Copy(name, item, path, Record.read(copied), damaged, self.owner(copied))
        except OSError as error:
            if error.errno in NO_FOLDER:
                return None
            return Copy(name, item, path, None, "", -1)

    def mark(self, folder: Folder, item: str, owner: int) -> str:
        """Return why a copy is damaged, as root, its owner, the owner of the dataset or this process reported it."""
        if (folder.status.st_ino, item) in self.rejected:
            return "damaged"
        status = None if item.startswith(".") else folder.lstat(f"{item}.damaged")
        believed = (0, owner, folder.status.st_uid or NOBODY, os.geteuid())
        # A file with another name, or that others may write, is one that somebody else moved here.
        sound = status and stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and not status.st_mode & 0o022
        if status is None or not sound or status.st_uid not in believed:
            return ""
        return folder.read(f"{item}.damaged") or "damaged"

    def used(self, datasets: list[Dataset]) -> int:
        """Return the bytes that copies take or will take."""
        kept = sum(copy.disk for dataset in datasets for copy in dataset.copies + dataset.trash)
        return kept + sum(staging.need for dataset in datasets for staging in dataset.staging)

    def users(self, folder: Folder, copy: Copy) -> list[str]:
        """Return the users of a copy; the caller holds the lock of its dataset, so that no new one comes."""
        # The owner of the dataset may have renamed it: then its name no longer matches its leases.
        moved = copy.name.startswith(".") and copy.owner != folder.status.st_uid
        found = [f"pin of {shown(folder.read('pin') or '')}"] if moved and folder.read("pin") else []
        with contextlib.suppress(OSError), folder.folder("leases") as leases:
            for name in leases.names():
                lease = Lease.read(name)
                if lease and (moved or lease.copy == copy.name) and lease.holds(self.settings.lease_hours):
                    found.append(process_name(lease.pid))
        try:
            with folder.folder(copy.name) as copied:
                lock = Flock.take(copied.file("use"), wait=False)
                if lock:
                    lock.release()
                    return found
                fd = copied.file("use")
        except FileNotFoundError:
            return found
        except OSError:
            return [*found, "somebody"]
        try:
            return found + ([process_name(pid) for pid in lockers(fd)] or ["somebody"])
        finally:
            os.close(fd)

    def is_live(self, folder: Folder, name: str) -> bool:
        try:
            lock = Flock.take(os.open(name, FOLDER, dir_fd=folder.fd), wait=False)
        except OSError:
            return True
        if lock:
            lock.release()
        return lock is None

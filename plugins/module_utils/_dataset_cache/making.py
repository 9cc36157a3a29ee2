# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The making of a copy: room is reserved, the content transferred, and the copy put in place by one rename."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.content import extents
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.failures import Exit, Failed, NoRoom
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.folder import READ, Flock, Folder
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.host import (
    fastest_algorithm,
    user_name,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.records import (
    Held,
    ManifestRow,
    Record,
    Victim,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.sources import (
    Survey,
    check_entries,
    copied_target,
    source_failed,
    take_survey,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.store import POLL_S
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.text import (
    format_size,
    read_sums,
    say,
    shown,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.transfer import Transfer
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.tree import (
    Entry,
    Fingerprint,
    sync_tree,
    walk,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.workers import CHUNK

VERSION = "1"
SUMS = "SHA256SUMS"
SUMS_LIMIT = 1 << 29
BLOCK = 4096
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Making(Transfer):
    """The making of one copy; its caller holds the lock SET.make of the dataset."""

    def run(self) -> Held:
        survey = take_survey(self.source.path, keep=True)
        shares = self.options.share or self.settings.share_private
        check_entries(self.source, survey.entries, None if shares else self.cache.gid)
        self.targets = {
            entry.path: copied_target(self.source, entry) for entry in survey.entries if entry.kind == "link"
        }
        self.read_expected(survey.entries)
        self.algorithm = "sha256" if self.sums else self.settings.algorithm
        if self.algorithm == "auto":
            self.algorithm = fastest_algorithm()
        try:
            self.reserve(self.need(survey.entries))
            self.fill(survey)
            return self.finish(survey)
        except OSError as error:
            raise write_failed(error) from None
        finally:
            self.progress.end()
            self.clear()

    def clear(self) -> None:
        """Remove what was not finished; what cannot be removed is left to the next process, or to root."""
        self.progress.folder = None
        if self.stage and self.folder and self.name:
            with contextlib.suppress(OSError):
                self.stage.empty("data")
                os.rmdir(self.name, dir_fd=self.folder.fd)
        for folder in (self.stage, self.folder):
            if folder:
                folder.close()
        with contextlib.suppress(OSError), self.cache.lock(self.source.set, "lock"):
            self.cache.close_set(self.source.set)

    def read_expected(self, entries: list[Entry]) -> None:
        """Read the SHA-256 that files must have: from --expect, from --sums or from the list in the source."""
        files = {entry.path for entry in entries if entry.kind == "file"}
        if self.options.expect:
            if files != {""}:
                raise Failed(Exit.USAGE, "--expect is for a source that is one file; --sums names a list")
            self.sums = {"": self.options.expect.lower()}
            return
        path = self.options.sums or (os.path.join(self.source.path, SUMS) if SUMS in files else "")
        if not path:
            return
        try:
            # The owner of the source can put a FIFO or another list there meanwhile; --sums may well be a FIFO.
            with open(path if self.options.sums else os.open(path, READ), "rb") as file:
                if not self.options.sums:
                    self.same(next(entry for entry in entries if entry.path == SUMS), os.fstat(file.fileno()))
                text = file.read(SUMS_LIMIT + 1)
            if len(text) > SUMS_LIMIT:
                raise ValueError(f"is larger than {SUMS_LIMIT} bytes")
            self.sums = read_sums(text)
        except OSError as error:
            raise (
                source_failed(path, error) if not self.options.sums else Failed(Exit.USAGE, f"{shown(path)}: {error}")
            ) from None
        except ValueError as error:
            raise Failed(Exit.CORRUPT, f"{shown(path)}: {error}") from None
        if files == {""}:
            self.sums = {"": self.sums[self.source.name]} if self.source.name in self.sums else {}
            if not self.sums:
                raise Failed(Exit.CORRUPT, f"{shown(path)} does not name {shown(self.source.name)}")
        missing = [name for name in self.sums if name not in files]
        if missing:
            raise Failed(
                Exit.CORRUPT, f"{shown(missing[0])} is missing, which {shown(path)} names ({len(missing)} in all)"
            )

    def need(self, entries: list[Entry]) -> int:
        """Return the bytes on disk that the copy takes at most."""
        total, inodes = BLOCK, set()
        for entry in entries:
            if entry.links > 1:
                if (entry.device, entry.inode) in inodes:
                    continue
                inodes.add((entry.device, entry.inode))
            size = entry.size
            # Fewer blocks than bytes: holes, or a file system that compresses. Only the extents show it.
            if entry.kind == "file" and size > CHUNK and entry.allocated < size:
                with contextlib.suppress(OSError):
                    size = self.data_size(entry)
            total += (size + BLOCK - 1) // BLOCK * BLOCK if entry.kind == "file" else BLOCK
            total += 200 + len(entry.path)  # its line of the manifest
        return total

    def data_size(self, entry: Entry) -> int:
        fd = os.open(self.source.place(entry), READ)
        try:
            return sum(end - start for start, end in extents(fd, entry.size))
        finally:
            os.close(fd)

    def reserve(self, need: int) -> None:
        """Make room, and reserve it for this copy."""

        def report(victim: Victim) -> None:
            if not self.options.quiet:
                say(f"evicted {shown(victim.source or victim.set)} ({format_size(victim.disk)}, {victim.why})")

        while True:
            with self.cache.room():
                self.clear_unfinished()
                try:
                    self.cache.make_room(need, report)
                except NoRoom as error:
                    if not (error.others and self.settings.evict_service):
                        raise
                    short = True
                else:
                    if self.make_stage(need):
                        return
                    short = False
            if short:
                self.cache.ask_for_room(need)
            else:
                time.sleep(POLL_S)

    def clear_unfinished(self) -> None:
        """Remove unfinished copies: this process holds SET.make, so their makers have ended."""
        with self.cache.opened(self.source.set) as folder:
            for staging in self.cache.read(folder, self.source.set).staging if folder else ():
                with contextlib.suppress(OSError):
                    if not self.cache.is_live(t.cast(Folder, folder), staging.name):
                        self.cache.discard(t.cast(Folder, folder), staging.name)

    def make_stage(self, need: int) -> bool:
        """Begin the copy; False while somebody has the lock of the dataset, for which nobody waits with that of the room."""
        lock = self.cache.take(self.source.set, "lock")
        if lock is None:
            return False
        with lock:
            self.folder = self.cache.open_set(self.source)
            name = f".staging-{secrets.token_hex(6)}"
            self.stage = self.folder.make(name, 0o700, None)
            fcntl.flock(self.stage.fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # nobody else can have opened it
            self.stage.give(0o2750, self.cache.gid)
            if self.stage.status.st_uid != os.geteuid():
                raise Failed(Exit.CACHE, f"somebody else writes in {self.cache.at('sets', self.source.set)}")
            self.name = name
        self.stage.replace("need", str(need))
        # Nobody else enters it: below, paths are as safe as descriptors.
        self.stage.make("data", 0o2700, None).close()
        # By the descriptor: the owner of the dataset's folder may exchange what has a name in it.
        self.top = os.path.join(self.stage.path, "data", self.source.name)
        self.shown = self.cache.at("sets", self.source.set, name, "data", self.source.name)
        self.progress.folder = self.stage
        return True

    def finish(self, survey: Survey) -> Held:
        """Put the copy in place, if the source is still what it was."""
        stage, above = t.cast(Folder, self.stage), t.cast(Folder, self.folder)
        self.unchanged(survey)
        for path, target in self.targets.items():
            self.check_link(path, target)
        folder_mode = self.settings.modes[1]
        for entry in survey.entries:
            if entry.kind == "folder":
                os.chmod(self.place(entry), folder_mode)
        manifest = self.write_manifest(survey.entries)
        for name in ("need", "progress"):
            with contextlib.suppress(FileNotFoundError):
                stage.unlink(name)
        fingerprint, disk = self.measure_copy(survey.entries)
        files = [entry for entry in survey.entries if entry.kind == "file"]
        record = Record(
            self.source.path,
            self.source.name,
            survey.fingerprint,
            fingerprint,
            self.algorithm,
            self.options.hash,
            manifest,
            sum(entry.size for entry in files),
            disk,
            len(files),
            time.time(),
            user_name(os.geteuid()),
            VERSION,
            True,
        )
        self.write_file("record.json", json.dumps(record._asdict(), indent=1))
        self.write_file("use", "")
        with stage.folder("data") as data:
            os.fchmod(data.fd, folder_mode)
        os.fchmod(stage.fd, folder_mode | 0o2000)
        sync_tree(stage)
        lock = t.cast(Flock, Flock.take(stage.file("use"), fcntl.LOCK_SH))
        with self.cache.lock(self.source.set, "lock"):
            name = next_generation(above.names())
            os.rename(self.name, name, src_dir_fd=above.fd, dst_dir_fd=above.fd)
            self.name = ""
            os.fsync(above.fd)
            self.cache.touch(above)
        path = self.cache.at("sets", self.source.set, name, "data", self.source.name)
        return Held(self.source.set, name, path, lock)

    def unchanged(self, survey: Survey) -> None:
        now = take_survey(self.source.path, keep=True)
        if [entry[:8] for entry in now.entries] == [entry[:8] for entry in survey.entries]:
            return
        before, after = ({entry.path: entry[:8] for entry in entries} for entries in (survey.entries, now.entries))
        changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
        names = ", ".join(shown(path or self.source.name) for path in changed[:3])
        raise Failed(
            Exit.CHANGED,
            f"{shown(self.source.path)} changed while it was copied ({names}); get it when nothing writes it",
        )

    def measure_copy(self, entries: list[Entry]) -> tuple[str, int]:
        """Return fingerprint and bytes on disk of the copy, once its names, kinds and sizes are those of the source."""
        found, disk, inodes, shape = Fingerprint(), BLOCK, set(), []
        for entry in walk(self.top):
            found.add(entry)
            shape.append((entry.path, entry.kind, entry.size))
            if (entry.device, entry.inode) not in inodes:
                disk += entry.allocated
            if entry.links > 1:
                inodes.add((entry.device, entry.inode))
        if shape != [(entry.path, entry.kind, entry.size) for entry in entries]:
            raise Failed(Exit.WRONG, "the copy has not the files of its source: somebody else writes in the cache")
        return found.hash.hexdigest(), disk + t.cast(
            os.stat_result, t.cast(Folder, self.stage).lstat("manifest")
        ).st_size

    def write_manifest(self, entries: list[Entry]) -> str:
        """Write a line of JSON for each entry of the copy; return the SHA-256 of all lines."""
        digest = hashlib.sha256()
        fd = t.cast(Folder, self.stage).file("manifest", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with open(fd, "wb", buffering=CHUNK) as file:
            os.fchmod(fd, self.settings.modes[0])
            for entry in entries:
                row: ManifestRow = {"path": entry.path, "kind": entry.kind}
                if entry.kind == "file":
                    row["size"], row["hash"] = entry.size, self.digests[entry.path]
                elif entry.kind == "link":
                    row["target"] = self.targets[entry.path]
                line = json.dumps(row).encode("ascii") + b"\n"
                digest.update(line)
                file.write(line)
        return digest.hexdigest()

    def write_file(self, name: str, text: str) -> None:
        stage = t.cast(Folder, self.stage)
        stage.replace(name, text)
        fd = stage.file(name)
        try:
            os.fchmod(fd, self.settings.modes[0])
        finally:
            os.close(fd)


def write_failed(error: OSError) -> Failed:
    if error.errno in FULL:
        return Failed(Exit.ROOM, f"the disk of the cache is full: {error.strerror}")
    return Failed(Exit.CACHE, f"the cache cannot be written: {error.strerror}")


def next_generation(names: list[str]) -> str:
    """Return the name of the next copy, different from all existing ones; a user may have left the largest number that is read."""
    taken = {int(match[1]) for name in names for match in [re.match(r"g(\d{6,18})(?!\d)", name, re.ASCII)] if match}
    number = max((number for number in taken if number < 10**17), default=0) + 1
    while number in taken:
        number += 1
    return f"g{number:06}"

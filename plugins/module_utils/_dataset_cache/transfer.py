# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The transfer of a dataset: it is copied, hashed, and read back."""

from __future__ import annotations

import hashlib
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.cache import Cache
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.content import (
    extents,
    feed_zeros,
    hash_file,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.failures import Exit, Failed
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.folder import READ, Folder, write_all
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.host import (
    is_rotational,
    memory_available,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.progress import Progress
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.sources import (
    Source,
    Survey,
    source_failed,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.text import shown
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.tree import (
    Entry,
    entry_of,
    sync_tree,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.workers import CHUNK, Buffer, Workers

# Files from here on are flushed and read back one by one, all others after one flush of the file system.
LARGE = 8 << 20


class Options(t.NamedTuple):
    hash: str
    jobs: int
    quiet: bool
    wait: float | None
    offline: bool
    share: bool
    sums: str | None
    expect: str | None


class Transfer:
    """The content of one copy; its caller holds the lock SET.make of the dataset."""

    def __init__(self, cache: Cache, source: Source, options: Options) -> None:
        self.cache, self.source, self.options = cache, source, options
        self.settings = cache.settings
        self.progress = Progress(source.name, options.quiet)
        self.sums: dict[str, str] = {}
        self.digests: dict[str, str] = {}
        self.targets: dict[str, str] = {}
        self.workers = Workers(options.jobs or self.job_count())
        self.buffer = Buffer()
        self.drop_source = False
        self.folder: Folder | None = None
        self.stage: Folder | None = None
        self.name = self.top = self.shown = ""
        self.algorithm = ""
        self.full = options.hash == "full"

    def job_count(self) -> int:
        # A disk that turns loses more by seeking than it gains by a longer queue.
        return 2 if is_rotational(self.source.path) else max(2, min(8, os.cpu_count() or 2))

    def place(self, entry: Entry) -> str:
        return os.path.join(self.top, entry.path) if entry.path else self.top

    def fill(self, survey: Survey) -> None:
        """Copy everything, flush it, and read it back."""
        firsts: dict[tuple[int, int], Entry] = {}
        files, again = [], []
        for entry in survey.entries:
            if entry.kind == "folder":
                os.mkdir(self.place(entry), 0o700)
            elif entry.kind == "link":
                os.symlink(self.targets[entry.path], self.place(entry))
            elif entry.links > 1 and firsts.setdefault((entry.device, entry.inode), entry) is not entry:
                again.append(entry)
            else:
                files.append(entry)
        self.progress.total = size = sum(entry.size for entry in files)
        self.progress.passes = 2 if self.full else 1
        self.drop_source = size > memory_available() // 2
        # A disk mostly has inodes in the order in which they were made, and so their content.
        files.sort(key=lambda entry: (entry.device, entry.inode))
        self.workers.each(self.copy_file, files, self.progress.tick)
        for entry in again:
            first = firsts[entry.device, entry.inode]
            os.link(self.place(first), self.place(entry), follow_symlinks=False)
            self.digests[entry.path] = self.digests[first.path]
            self.check_sum(entry)
        sync_tree(t.cast(Folder, self.stage))
        if self.full:
            small = [entry for entry in files if entry.size < LARGE]
            self.workers.each(self.read_back, small, self.progress.tick)

    def copy_file(self, entry: Entry) -> None:
        path, target = self.source.place(entry), self.place(entry)
        mode = self.settings.modes[0] | (0o110 if entry.mode & 0o100 else 0)
        try:
            fd = os.open(path, READ)
        except OSError as error:
            raise source_failed(path, error) from None
        try:
            self.same(entry, os.fstat(fd))
            if entry.size >= LARGE:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            out = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
            try:
                self.digests[entry.path] = self.stream(fd, out, entry)
                self.same(entry, os.fstat(fd))
                os.utime(out, ns=(entry.mtime, entry.mtime))
                if self.full and entry.size >= LARGE:
                    os.fsync(out)
            finally:
                os.close(out)
            if self.drop_source:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
        self.check_sum(entry)
        if self.full and entry.size >= LARGE:
            self.read_back(entry)

    def same(self, entry: Entry, status: os.stat_result) -> None:
        if entry_of(entry.path, status)[1:8] != entry[1:8]:
            raise Failed(
                Exit.CHANGED,
                f"{shown(self.source.place(entry))} changed while it was copied; get it when nothing writes it",
            )

    def check_sum(self, entry: Entry) -> None:
        wanted = self.sums.get(entry.path)
        if wanted and wanted != self.digests[entry.path]:
            raise Failed(
                Exit.CORRUPT,
                f"{shown(self.source.place(entry))} is corrupt: its SHA-256 is {self.digests[entry.path]}, not {wanted}",
            )

    def check_link(self, path: str, target: str) -> None:
        """Refuse a link of the copy that leads elsewhere than the link of the source."""
        ends = []
        for top in (self.source.path, self.top):
            place = os.path.join(top, path)
            end = os.path.realpath(
                os.path.join(os.path.dirname(place), target if top == self.top else os.readlink(place))
            )
            ends.append(os.path.relpath(end, os.path.realpath(top)))
        if ends[0] != ends[1]:
            raise Failed(
                Exit.SOURCE, f"{shown(path)} is a link that leads out of the source and back: make it relative"
            )

    def stream(self, fd: int, out: int, entry: Entry) -> str:
        """Copy the data of a file, holes as holes; return the hash of what was read."""
        digest = hashlib.new(self.algorithm)
        position = 0
        sparse = entry.allocated < entry.size
        for start, end in extents(fd, entry.size) if sparse else [(0, entry.size)]:
            feed_zeros(digest, start - position, self.workers.check)
            position = start
            while position < end:
                view = self.buffer.view[: min(CHUNK, end - position)]
                count = self.read(fd, view, position, entry)
                digest.update(view[:count])
                write_all(out, view[:count], position)
                position += count
                self.progress.add(count, count)
                self.workers.check()
        if position < entry.size:
            feed_zeros(digest, entry.size - position, self.workers.check)
        if sparse:
            os.ftruncate(out, entry.size)
        return digest.hexdigest()

    def read(self, fd: int, view: memoryview, position: int, entry: Entry) -> int:
        try:
            count = os.preadv(fd, [view], position)
        except OSError as error:
            raise source_failed(self.source.place(entry), error) from None
        if count == 0:
            raise Failed(Exit.CHANGED, f"{shown(self.source.place(entry))} became shorter while it was copied")
        return count

    def read_back(self, entry: Entry) -> None:
        """Compare the file on the disk with what was read. The kernel drops its pages first, as far as it can."""
        path = self.place(entry)
        found = hash_file(path, self.algorithm, entry.size, self.buffer.view, self.workers.check)
        if found != self.digests[entry.path]:
            raise Failed(
                Exit.WRONG,
                f"{shown(os.path.join(self.shown, entry.path))} was read back otherwise than it was written: "
                "check the disk of the cache",
            )
        self.progress.add(entry.size)

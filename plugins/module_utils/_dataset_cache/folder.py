# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Open folders and locked files, reached by descriptors without following links."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import typing as t

DEEPEST = 256
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
FOLDER = READ | os.O_DIRECTORY


class Folder:
    """An open folder. What is in it is reached by its descriptor: no link is followed, whatever others put in its place."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def at(cls, path: str) -> Folder:
        """Open a real path, part by part."""
        found = cls(os.open("/", FOLDER))
        for name in path.split("/"):
            if name:
                with found as above:
                    found = above.folder(name, os.O_PATH)
        with found:
            return found.folder(".")

    @property
    def path(self) -> str:
        """Return a path that leads here, wherever somebody moves the folder."""
        return f"/proc/self/fd/{self.fd}"

    @property
    def status(self) -> os.stat_result:
        return os.fstat(self.fd)

    def folder(self, name: str, way: int = 0) -> Folder:
        return Folder(os.open(name, FOLDER | way, dir_fd=self.fd))

    def names(self) -> list[str]:
        return sorted(os.listdir(self.fd))

    def lstat(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def file(self, name: str, flags: int = os.O_RDONLY, mode: int = 0o640) -> int:
        """Open a regular file that has no other name: with one, it would be a file from elsewhere."""
        fd = os.open(name, flags | READ, mode, dir_fd=self.fd)
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            os.close(fd)
            raise OSError(errno.ELOOP, "is no file of the cache", name)
        return fd

    def file_or_new(self, name: str, flags: int = os.O_RDONLY, mode: int = 0o640) -> int:
        while True:
            try:
                # Not O_CREAT: Linux refuses that for a file of somebody else in a sticky folder (fs.protected_regular).
                return self.file(name, flags)
            except FileNotFoundError:
                pass
            with contextlib.suppress(FileExistsError):
                # Others may write it only where they must: who may write a file may also give it other names.
                return self.file(name, flags | os.O_CREAT | os.O_EXCL, mode)

    def read(self, name: str) -> str | None:
        """Return the text of a file; None where it cannot be read."""
        try:
            fd = self.file(name)
        except OSError:
            return None
        with open(fd, encoding="utf-8", errors="replace") as file:
            try:
                return file.read(1 << 20)
            except OSError:
                return None

    def json(self, name: str) -> t.Any:
        try:
            return json.loads(self.read(name) or "null")
        except (ValueError, RecursionError):
            return None

    def replace(self, name: str, text: str, durable: bool = False) -> None:
        """Put a file in place at once or not at all. Its staging name is fixed: files that killed processes leave do not accumulate."""
        staged = f"{name}~{os.geteuid()}"
        fd = self.file_or_new(staged, os.O_WRONLY)
        try:
            os.ftruncate(fd, 0)
            write_all(fd, memoryview(text.encode("utf-8")), 0)
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(staged, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        if durable:
            os.fsync(self.fd)

    def write(self, name: str, text: str, durable: bool = False) -> None:
        """Write a file where it is: in a sticky folder nobody replaces the file of somebody else."""
        data = text.encode("utf-8")
        fd = self.file_or_new(name, os.O_WRONLY, 0o660)
        try:
            write_all(fd, memoryview(data), 0)
            os.ftruncate(fd, len(data))
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        if durable:
            os.fsync(self.fd)

    def make(self, name: str, mode: int, gid: int | None) -> Folder:
        """Open a folder; one that is not there yet is made, and belongs to the group."""
        try:
            os.mkdir(name, 0o700, dir_fd=self.fd)
        except FileExistsError:
            return self.folder(name)
        created = self.folder(name)
        created.give(mode, gid)
        return created

    def give(self, mode: int, gid: int | None) -> None:
        if gid is not None and self.status.st_gid != gid:
            os.fchown(self.fd, -1, gid)
        os.fchmod(self.fd, mode)

    def unlink(self, name: str) -> None:
        os.unlink(name, dir_fd=self.fd)

    def empty(self, first: str = "", depth: int = 0) -> None:
        """Remove all that is in it, folders read-only or not. *first* goes first."""
        if depth > DEEPEST:
            raise OSError(errno.ENAMETOOLONG, f"deeper than {DEEPEST} folders")
        with contextlib.suppress(PermissionError):
            os.fchmod(self.fd, 0o700)
        for name in sorted(self.names(), key=lambda name: name != first):
            status = self.lstat(name)
            if status and stat.S_ISDIR(status.st_mode):
                with self.folder(name) as below:
                    below.empty(depth=depth + 1)
                os.rmdir(name, dir_fd=self.fd)
            elif status:
                self.unlink(name)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def write_all(fd: int, view: memoryview, position: int) -> None:
    while view:
        count = os.pwrite(fd, view, position)
        view, position = view[count:], position + count


class Flock:
    """An open file with a lock of the kernel on it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def take(cls, fd: int, how: int = fcntl.LOCK_EX, wait: bool = True) -> Flock | None:
        """Lock an open file, which it takes over; None when somebody else has it and *wait* is False."""
        try:
            fcntl.flock(fd, how if wait else how | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
        return cls(fd)

    def release(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def __enter__(self) -> Flock:
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Trees of files as the file system describes them, without their content."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.folder import (
    DEEPEST,
    FOLDER,
    READ,
    Folder,
)


class Entry(t.NamedTuple):
    """A file, folder or symbolic link; *path* is relative, and empty for the source itself."""

    path: str
    kind: str
    size: int
    mtime: int
    target: str
    ctime: int
    device: int
    inode: int
    links: int
    mode: int
    gid: int
    allocated: int


KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}


def entry_of(path: str, status: os.stat_result, target: str = "") -> Entry:
    kind = KINDS.get(stat.S_IFMT(status.st_mode), "other")
    regular = kind == "file"
    return Entry(
        path,
        kind,
        status.st_size if regular else 0,
        status.st_mtime_ns if regular else 0,
        target,
        # A folder's own times change with what is in it, which is looked at itself.
        status.st_ctime_ns if regular else 0,
        status.st_dev,
        status.st_ino,
        status.st_nlink if regular else 1,
        status.st_mode,
        status.st_gid,
        status.st_blocks * 512,
    )


def walk(top: str) -> t.Iterator[Entry]:
    """Yield everything in *top*, itself first, in a fixed order.

    It works with descriptors: a folder that becomes a link meanwhile is not followed.
    """
    status = os.lstat(top)
    yield entry_of("", status)
    if not stat.S_ISDIR(status.st_mode):
        return
    stack: list[tuple[int, str, t.Iterator[str]]] = []
    try:
        fd = os.open(top, FOLDER)
        stack.append((fd, "", iter(sorted(os.listdir(fd), key=os.fsencode))))
        while stack:
            fd, folder, names = stack[-1]
            name = next(names, None)
            if name is None:
                os.close(stack.pop()[0])
                continue
            path = folder + name
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            entry = entry_of(path, status, os.readlink(name, dir_fd=fd) if stat.S_ISLNK(status.st_mode) else "")
            yield entry
            if entry.kind == "folder":
                if len(stack) >= DEEPEST:
                    raise OSError(errno.ENAMETOOLONG, f"deeper than {DEEPEST} folders", path)
                below = os.open(name, FOLDER, dir_fd=fd)
                # On the stack before its names are read: whatever fails, it is closed.
                stack.append((below, path + "/", iter(())))
                stack[-1] = (below, path + "/", iter(sorted(os.listdir(below), key=os.fsencode)))
    finally:
        for level in stack:
            os.close(level[0])


class Fingerprint:
    """The state of a tree without the content of its files: names, kinds, sizes, times of change, targets of links."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self.newest = 0

    def add(self, entry: Entry) -> None:
        line = f"{entry.kind}\0{entry.path}\0{entry.size}\0{entry.mtime}\0{entry.target}\0"
        self.hash.update(os.fsencode(line))
        self.newest = max(self.newest, entry.ctime)


def sync_tree(folder: Folder) -> None:
    """Flush all of a tree to disk: by one flush of its file system, or, where libc has none, file by file."""
    try:
        import ctypes  # costs more than all the rest of a `get` that finds its copy

        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syncfs(folder.fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    except (ImportError, AttributeError):
        for entry in walk(f"{folder.path}/."):
            if entry.kind != "link":
                below = os.open(os.path.join(folder.path, entry.path or "."), READ)
                os.fsync(below)
                os.close(below)

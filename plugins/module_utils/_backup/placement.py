# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bring restored files to their places, also below directories of users, who may change links there meanwhile.

restic writes into a directory that only root can enter, on the file system of the place. From there the topmost entries that are not
there yet are renamed, each by the descriptors of its directories; no link is followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import (
    DIRECTORY_FLAGS,
    UnsafePath,
    directory,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import is_within

PREFIX = ".rigwright-restore-"
_FILES = "files"
_REASONS = {
    errno.EXDEV: "another file system, or a project with a quota of its own, begins there: restore it by itself, or to another place"
}


class Stage(t.NamedTuple):
    """A directory that only root can enter. A user who can rename it cannot change its content, nor where `path` leads."""

    handle: int
    files: int

    @property
    def path(self) -> str:
        """For a program that inherits `handle`."""
        return f"/proc/self/fd/{self.handle}/{_FILES}"


@contextlib.contextmanager
def stage(parent_path: str) -> t.Iterator[Stage]:
    """Create such a directory in *parent_path*, and remove it with all that is left in it.

    :raises OSError: it cannot be created there.
    """
    name = PREFIX + secrets.token_hex(8)
    with directory(parent_path) as parent, contextlib.ExitStack() as stack:
        before = os.fstat(parent)
        os.mkdir(name, 0o700, dir_fd=parent)
        stack.callback(_remove, parent, name)
        handle = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
        stack.callback(os.close, handle)
        found = os.fstat(handle)
        if (found.st_uid, found.st_mode & 0o777) != (os.geteuid(), 0o700) or os.listdir(handle):
            raise UnsafePath(f"{parent_path}/{name}", "was exchanged while it was made")
        with contextlib.suppress(OSError):  # there is none
            os.removexattr(handle, "system.posix_acl_default")
        os.mkdir(_FILES, 0o700, dir_fd=handle)
        stack.callback(shutil.rmtree, f"/proc/self/fd/{handle}/{_FILES}")
        files = os.open(_FILES, DIRECTORY_FLAGS, dir_fd=handle)
        stack.callback(os.close, files)
        keep_times(parent, before)
        yield Stage(handle, files)


def _remove(parent: int, name: str) -> None:
    before = os.fstat(parent)
    with contextlib.suppress(OSError):  # the owner of the parent has renamed it; it is empty
        os.rmdir(name, dir_fd=parent)
    keep_times(parent, before)


def mount_of(path: str) -> str:
    """Return the id of the mount of a directory: no rename goes from one mount to another."""
    with directory(path) as handle, open(f"/proc/self/fdinfo/{handle}", encoding="ascii") as file:
        return re.findall(r"mnt_id:\s*(\d+)", file.read())[0]


def keep_times(handle: int, before: os.stat_result) -> None:
    """Set the times of a directory back."""
    os.utime(handle, ns=(before.st_atime_ns, before.st_mtime_ns))


class Mover:
    """Moves a tree into another one. Existing files stay, or are replaced by files of the same kind if that is allowed."""

    def __init__(self, wanted: t.Sequence[str], overwrite: bool) -> None:
        self.wanted, self.overwrite = wanted, overwrite
        self.skipped = 0
        self.problems: list[str] = []

    def move(self, source: int, target: int, above: str = "") -> None:
        """Move all entries of a directory; both are descriptors.

        :param above: the path of the directory in the snapshot.
        """
        for name in sorted(os.listdir(source)):
            path = f"{above}/{name}"
            try:
                self._move_one(name, source, target, path)
            except OSError as error:
                self.problems.append(f"{path}: {_REASONS.get(error.errno or 0, error.strerror)}")

    def _move_one(self, name: str, source: int, target: int, path: str) -> None:
        kind = _kind(name, source)
        existing = _kind(name, target)
        if not existing:
            self._put(name, source, target, kind)
        elif kind != existing:
            self.problems.append(f"{path}: something of another kind is there now")
        elif kind == stat.S_IFDIR:
            self._merge(name, source, target, path)
        elif self.overwrite:
            os.replace(name, name, src_dir_fd=source, dst_dir_fd=target)
        else:
            self.skipped += 1

    def _put(self, name: str, source: int, target: int, kind: int) -> None:
        """Move an entry that did not exist; never replace one that was created meanwhile."""
        if kind == stat.S_IFDIR:
            # This replaces an empty directory at most.
            os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
            return
        try:
            os.link(name, name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
            os.unlink(name, dir_fd=source)
        except FileExistsError:
            self.skipped += 1
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
                raise
            # A file system without hard links.
            os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)

    def _merge(self, name: str, source: int, target: int, path: str) -> None:
        """Merge a directory into the existing one, which stays as it is unless the user named it and allowed to overwrite."""
        with directory(name, dir_fd=source) as new, directory(name, dir_fd=target) as old:
            # Moving changes the times of both.
            before, model = os.fstat(old), os.fstat(new)
            self.move(new, old, path)
            if self.overwrite and any(is_within(path, wanted) for wanted in self.wanted):
                _make_like(old, model, _attributes(new))
            else:
                keep_times(old, before)


def _kind(name: str, handle: int) -> int:
    try:
        return stat.S_IFMT(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return 0


def _attributes(handle: int) -> dict[str, bytes]:
    try:
        return {name: os.getxattr(handle, name) for name in os.listxattr(handle)}
    except OSError:  # a file system without attributes
        return {}


def _make_like(handle: int, wanted: os.stat_result, attributes: t.Mapping[str, bytes]) -> None:
    """Give a directory the owner, mode, attributes and times of another one."""
    os.fchown(handle, wanted.st_uid, wanted.st_gid)
    os.fchmod(handle, stat.S_IMODE(wanted.st_mode))
    present = _attributes(handle)
    for name in present.keys() - attributes.keys():
        os.removexattr(handle, name)
    for name in attributes:
        if present.get(name) != attributes[name]:
            os.setxattr(handle, name, attributes[name])
    keep_times(handle, wanted)

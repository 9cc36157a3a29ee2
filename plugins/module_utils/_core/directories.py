# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Open directories and files below directories that other users may write, without following links.

Root must never use a path there: between a check and the use, another user can put a link in place of any part of it.
Open the directory once with :func:`open_directory`, then work with ``dir_fd`` and :func:`open_file`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import stat
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import acl
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PASS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a FIFO waits for a writer for ever.
FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
READ_LIMIT = 1 << 20


class UnsafePath(OSError):
    """A part of the path is a link, of another type, or owned by an unexpected user."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(errno.ELOOP, problem, path)


@dataclasses.dataclass(frozen=True)
class Rights:
    """Owner, mode and default access control list of a directory. An empty list leaves new files to the umask of their creator."""

    uid: int
    gid: int
    mode: int
    acl: bytes = b""


def open_directory(path: str, make: bool = False, mode: int = 0o755, dir_fd: int | None = None) -> int:
    """Open a directory, each component without following links. The caller closes the descriptor.

    :param make: create missing components with *mode*, owned by this process.
    :param dir_fd: where a relative path starts.
    :raises FileNotFoundError: a component is missing.
    :raises UnsafePath: a component is a link or no directory.
    """
    names = [name for name in path.split("/") if name not in ("", ".")]
    if ".." in names:
        raise UnsafePath(path, "contains '..'")
    # The directories on the way need no permission to list them, only to pass them.
    handle = os.open("/" if path.startswith("/") else ".", _PASS if names else DIRECTORY_FLAGS, dir_fd=dir_fd)
    for number, name in enumerate(names, 1):
        try:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, mode, dir_fd=handle)
            following = os.open(name, DIRECTORY_FLAGS if number == len(names) else _PASS, dir_fd=handle)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise UnsafePath(path, f"{name} is a link or no directory") from None
            raise
        finally:
            os.close(handle)
        handle = following
    return handle


@contextlib.contextmanager
def directory(path: str, make: bool = False, mode: int = 0o755, dir_fd: int | None = None) -> t.Iterator[int]:
    """Open a directory as :func:`open_directory` does and close it at the end."""
    handle = open_directory(path, make, mode, dir_fd)
    try:
        yield handle
    finally:
        os.close(handle)


def open_file(path: str, flags: int = os.O_RDONLY, mode: int = 0o600, dir_fd: int | None = None) -> int:
    """Open a regular file; a link in the last component, a FIFO or a device is refused. The caller closes the descriptor.

    :raises UnsafePath: it is a link or no regular file.
    """
    try:
        handle = os.open(path, flags | FILE_FLAGS, mode, dir_fd=dir_fd)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise UnsafePath(path, "is a link or no regular file") from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UnsafePath(path, "is no regular file")
    return handle


def read_file(
    path: str, owners: t.Collection[int] | None = None, limit: int = READ_LIMIT, dir_fd: int | None = None
) -> bytes:
    """Read a whole file that another user may have put there.

    :param owners: uids whose file is accepted; None accepts every owner.
    :param limit: bytes that the file may have at most.
    :raises UnsafePath: it is no regular file, belongs to somebody else, or is larger than *limit*.
    """
    with open(open_file(path, dir_fd=dir_fd), "rb") as file:
        found = os.fstat(file.fileno())
        if owners is not None and found.st_uid not in owners:
            raise UnsafePath(path, f"belongs to uid {found.st_uid}")
        # Another user can make a hard link to a file that only root can read.
        if found.st_nlink > 1:
            raise UnsafePath(path, "has several hard links")
        content = file.read(limit + 1)
    if len(content) > limit:
        raise UnsafePath(path, f"is larger than {limit} bytes")
    return content


def write_file(path: str, text: str) -> None:
    """Replace a file in one step; its directory exists and may belong to somebody else.

    :raises OSError: it cannot be written, or its directory is reached through a link.
    """
    with directory(os.path.dirname(path)) as parent:
        # By descriptor: another user may replace the directory after it was opened.
        replace_file(f"/proc/self/fd/{parent}/{os.path.basename(path)}", text)


def read_rights(handle: int) -> Rights:
    """Return the rights of an open directory."""
    info = os.fstat(handle)
    return Rights(info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode), acl.read(handle))


def write_rights(handle: int, wanted: Rights) -> None:
    """Give an open directory these rights.

    :raises OSError: the file system has no access control lists, or is read-only.
    """
    info = os.fstat(handle)
    if (info.st_uid, info.st_gid) != (wanted.uid, wanted.gid):
        os.fchown(handle, wanted.uid, wanted.gid)
    acl.write(handle, wanted.acl)
    # Last: a change of the owner clears the setgid bit.
    os.fchmod(handle, wanted.mode)

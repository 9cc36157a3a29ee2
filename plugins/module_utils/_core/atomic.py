# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Replace files and links in one step: a reader, or a host after a power cut, has the old one or the new one."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile


def replace_file(
    path: str, content: str | bytes, mode: int = 0o644, owner: tuple[int, int] | None = None, work: str | None = None
) -> None:
    """Write a file in an existing directory. Its mode does not depend on the umask; other users may write in the directory.

    :param content: a text is written as UTF-8, with the bytes that Python's names of files have as surrogates.
    :param owner: uid and gid, -1 for what stays that of this process.
    :param work: a directory of the same file system where what is unfinished lies, for callers that
        remove what killed runs have left in it; by default the file's own directory.
    :raises OSError: it cannot be written, and the old file is there as it was; or the new one is there, and a power cut may undo it.
    """
    # A unique name: two processes that write the same file at once do not mix their content.
    handle, unfinished = tempfile.mkstemp(prefix=f".{os.path.basename(path)}.", dir=work or os.path.dirname(path))
    try:
        with open(handle, "wb") as file:
            file.write(content.encode("utf-8", errors="surrogateescape") if isinstance(content, str) else content)
            file.flush()
            # The owner first: chown clears the set-id bits of a mode.
            if owner is not None:
                os.fchown(handle, *owner)
            os.fchmod(handle, mode)
            os.fsync(handle)
        os.replace(unfinished, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        # Python names no file where a disk is full.
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            error.filename = path
        raise
    sync_directory(os.path.dirname(path))


def replace_link(path: str, target: str) -> None:
    """Point a link elsewhere; its directory exists. A temporary link that a killed run has left is replaced.

    :raises OSError: it cannot be made, or there is a directory; what was there is as it was.
    """
    unfinished = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.rigwright")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(unfinished)
    os.symlink(target, unfinished)
    try:
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise
    sync_directory(os.path.dirname(path))


def clear_unfinished(directory: str, of: str = "") -> None:
    """Remove what killed runs of `replace_file` left, of a file or of all, in a directory of root.

    :raises OSError: it does not go.
    """
    # As tempfile names them.
    for name in os.listdir(directory) if os.path.isdir(directory) else ():
        if re.fullmatch(rf"\.{re.escape(of) or '.+'}\.[a-z0-9_]{{8}}", name):
            os.unlink(os.path.join(directory, name))


def sync_tree(path: str) -> None:
    """Sync a file, or a directory with everything below it, before a record points to it. Links are not followed."""
    if os.path.islink(path):
        return
    if not os.path.isdir(path):
        sync_file(path)
        return
    for parent, _directories, files in os.walk(path):
        for name in files:
            entry = os.path.join(parent, name)
            if os.path.isfile(entry) and not os.path.islink(entry):
                sync_file(entry)
        sync_directory(parent)
    sync_directory(os.path.dirname(path))


def sync_file(path: str) -> None:
    """Sync the content of a file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: str) -> None:
    """Sync the names in a directory to the disk."""
    descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

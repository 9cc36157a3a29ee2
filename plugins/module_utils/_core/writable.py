# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Where others than root may write: whatever root keeps there, they can put something else in its place."""

from __future__ import annotations

import os
import stat
import typing as t


def is_roots(found: os.stat_result) -> bool:
    """Whether nobody but root may write, and who runs this, which is root on a host."""
    return not found.st_mode & 0o022 and (found.st_uid == 0 or found.st_uid == os.geteuid())


def open_to_others(path: str) -> list[str]:
    """The directories on the way to *path*, itself and those behind links too, in which others may exchange what comes next.

    Where a directory is sticky, as /tmp is, nobody exchanges what is there and belongs to root.
    """
    on_the_way = [parent for parent, entry in _steps(path) if os.path.isdir(parent) and not _is_kept(parent, entry)]
    itself = [path] if os.path.isdir(path) and not is_roots(os.stat(path)) else []
    return sorted({*on_the_way, *itself})


def _steps(path: str) -> t.Iterator[tuple[str, str]]:
    """Every directory on the way to *path*, with what is looked up there."""
    parent = os.path.dirname(path)
    if parent == path:
        return
    yield from _steps(parent)
    yield parent, path
    # One that leads nowhere, or to itself, is in the way of whoever makes a directory.
    if os.path.islink(path) and os.path.exists(path):
        yield from _steps(os.path.join(parent, os.readlink(path)))


def _is_kept(parent: str, entry: str) -> bool:
    found = os.stat(parent)
    if is_roots(found):
        return True
    roots = (0, os.geteuid())
    is_sticky = found.st_uid in roots and bool(found.st_mode & stat.S_ISVTX)
    return is_sticky and os.path.lexists(entry) and os.lstat(entry).st_uid in roots

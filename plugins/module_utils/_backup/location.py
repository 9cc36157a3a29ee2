# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Where a repository on this machine may lie, so that root can make it and give it to the user of the units."""

from __future__ import annotations

import os
import pwd
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import directory
from ansible_collections.rigwright.workstation.plugins.module_utils._core.writable import open_to_others


class Unfit(t.NamedTuple):
    """Why root neither makes nor gives away a directory, and what to do."""

    problem: str
    remedy: str


def unfit(path: str, user: str) -> Unfit | None:
    """Say what is wrong with the way to *path*; only root, and the user of the units, may change the directories above.

    Another user could put a link there, or another directory, which root would then give away.
    """
    others = [place for place in open_to_others(os.path.dirname(path)) if not _is_of(place, user)]
    if others:
        words = f"lies at {path}, and others than root and {user} can change {', '.join(others)}"
        return Unfit(words, "`chown root:root` and `chmod go-w` these directories, or name another place in `url`")
    real = os.path.realpath(path)
    if real != os.path.normpath(path):
        return Unfit(f"lies at {path}, which leads through a link to {real}", f"name {real} in `url`")
    return None


def _is_of(path: str, user: str) -> bool:
    """Tell whether a directory is the user's, and nobody else may write there."""
    try:
        uid = pwd.getpwnam(user).pw_uid
    except KeyError:
        return False
    found = os.stat(path)
    return found.st_uid == uid and not found.st_mode & 0o022


def give(path: str, owner: int, account: pwd.struct_passwd) -> None:
    """Give a tree of one user to another. What is somebody else's in it stays so; the top comes last, so that a cut run is made up for."""
    with directory(path) as top:
        for _folder, names, files, here in os.fwalk(".", topdown=False, dir_fd=top):
            for name in (*names, *files):
                if os.stat(name, dir_fd=here, follow_symlinks=False).st_uid == owner:
                    os.chown(name, account.pw_uid, account.pw_gid, dir_fd=here, follow_symlinks=False)
        if os.fstat(top).st_uid == owner:
            os.fchown(top, account.pw_uid, account.pw_gid)

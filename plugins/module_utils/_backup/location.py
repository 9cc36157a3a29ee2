# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Places where a repository on this machine is allowed: root creates it and makes the user of the units its owner."""

from __future__ import annotations

import os
import pwd
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import directory
from ansible_collections.rigwright.workstation.plugins.module_utils._core.writable import open_to_others


class Unfit(t.NamedTuple):
    """Why root does not create a directory or change its owner, and the remedy."""

    problem: str
    remedy: str


def unfit(path: str, user: str) -> Unfit | None:
    """Return what is wrong with the way to *path*; only root and the user of the units may change the directories above.

    Another user could put a link there, or another directory, which root would then give away.
    """
    others = [place for place in open_to_others(os.path.dirname(path)) if not _is_of(place, user)]
    if others:
        problem = f"is at {path}, and users other than root and {user} can change {', '.join(others)}"
        return Unfit(problem, "`chown root:root` and `chmod go-w` these directories, or name another place in `url`")
    real = os.path.realpath(path)
    if real != os.path.normpath(path):
        return Unfit(f"is at {path}, which leads through a link to {real}", f"name {real} in `url`")
    return None


def _is_of(path: str, user: str) -> bool:
    """Return whether a directory belongs to the user, and nobody else can write there."""
    try:
        uid = pwd.getpwnam(user).pw_uid
    except KeyError:
        return False
    found = os.stat(path)
    return found.st_uid == uid and not found.st_mode & 0o022


def give(path: str, owner: int, account: pwd.struct_passwd) -> None:
    """Change the owner of a tree. Other owners stay; the top comes last, so that a run that was cut short is completed."""
    with directory(path) as top:
        for _folder, names, files, here in os.fwalk(".", topdown=False, dir_fd=top):
            for name in (*names, *files):
                if os.stat(name, dir_fd=here, follow_symlinks=False).st_uid == owner:
                    os.chown(name, account.pw_uid, account.pw_gid, dir_fd=here, follow_symlinks=False)
        if os.fstat(top).st_uid == owner:
            os.fchown(top, account.pw_uid, account.pw_gid)

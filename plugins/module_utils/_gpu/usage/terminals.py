# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages on the terminals of a user, as write(1) sends them.

The sampler has the group of terminals, and nothing else of root. A terminal that does not take messages (`mesg n`) gets none.
"""

from __future__ import annotations

import contextlib
import grp
import os
import stat
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import DIRECTORY_FLAGS
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown

# Windows of tmux are terminals, too: a message on the last ones is enough.
MOST = 3
_FLAGS = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORIES = ("/dev/pts", "/dev")


def terminal_group() -> int | None:
    """Return the group of terminals; None on a host without it."""
    try:
        return grp.getgrnam("tty").gr_gid
    except KeyError:
        return None


def takes_messages(found: os.stat_result, uid: int, group: int | None) -> bool:
    """Return whether a file is a terminal of a user, which takes messages of the group of terminals."""
    return (
        stat.S_ISCHR(found.st_mode)
        and found.st_uid == uid
        and found.st_gid == group
        and bool(found.st_mode & stat.S_IWGRP)
    )


def send(text: str, uid: int, group: int | None, directories: t.Iterable[str] = _DIRECTORIES) -> int:
    """Write a message to the terminals that a user used last, and return how many took it. Nothing waits for a terminal."""
    found = []
    content = f"\r\n\a{shown(text, 400)}\r\n".encode("ascii", errors="replace")
    for folder in directories:
        with contextlib.suppress(OSError):
            handle = os.open(folder, DIRECTORY_FLAGS)
            try:
                found += [(entry, folder) for entry in _terminals(handle, uid, group)]
            finally:
                os.close(handle)
    return sum(
        _write(f"{folder}/{name}", content, uid, group) for (_used, name), folder in sorted(found, reverse=True)[:MOST]
    )


def _terminals(handle: int, uid: int, group: int | None) -> list[tuple[float, str]]:
    found = []
    for name in os.listdir(handle):
        if name.isdecimal() or name.startswith("tty"):
            with contextlib.suppress(OSError):
                info = os.stat(name, dir_fd=handle, follow_symlinks=False)
                if takes_messages(info, uid, group):
                    found.append((info.st_atime, name))
    return found


def _write(path: str, content: bytes, uid: int, group: int | None) -> bool:
    try:
        handle = os.open(path, _FLAGS)
    except OSError:
        return False
    try:
        # Its owner may have closed it, and another user opened one of the same name.
        if not takes_messages(os.fstat(handle), uid, group) or not os.isatty(handle):
            return False
        return os.write(handle, content) == len(content)
    except OSError:
        return False
    finally:
        os.close(handle)

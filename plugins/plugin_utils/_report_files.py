# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of reports on the controller. What others have put in their place is neither followed nor does it give its rights."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import UnsafePath, open_file

# A report of a thousand hosts has a tenth of it.
LIMIT = 256 << 20
_PRIVATE = 0o600


def read(path: Path) -> bytes:
    """Return the content of a file, which may be a link of the user.

    :raises OSError: it is missing, no regular file or too large.
    """
    return _content(os.path.realpath(path))


def place_of(path: Path) -> str:
    """Return where a file is written: its directory may be a link of the user, and a link in its own place is replaced."""
    return os.path.join(os.path.realpath(path.parent), path.name)


def write(path: Path, content: str, pretend: bool = False) -> bool:
    """Replace a file in one step, unless it is as it should be; return whether that was due.

    A new file is its owner's alone. A file of this user keeps its mode and group, if others cannot write it.

    :param pretend: write nothing.
    :raises OSError: it cannot be written, and is as it was.
    """
    place = place_of(path)
    mode, group = _rights(place)
    data = content.encode("utf-8", errors="replace")
    if group is not None and _content(place) == data:
        return False
    if not pretend:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        replace_file(place, data, mode, None if group is None else (-1, group))
    return True


def _rights(place: str) -> tuple[int, int | None]:
    """Return the mode for a file, and the group of the one that is there; None where that is no file of this user alone."""
    try:
        found = os.stat(place, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return _PRIVATE, None
    mode = stat.S_IMODE(found.st_mode)
    is_own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1
    groups = {found.st_gid} if os.geteuid() == 0 else {os.getegid(), *os.getgroups()}
    # What others can write may be theirs, and what runs with its owner's rights is no report.
    return (mode, found.st_gid) if is_own and not mode & 0o7022 and found.st_gid in groups else (_PRIVATE, None)


def _content(place: str) -> bytes:
    with open(open_file(place), "rb") as file:
        content = file.read(LIMIT + 1)
    if len(content) > LIMIT:
        raise UnsafePath(place, f"is larger than {LIMIT} bytes")
    return content

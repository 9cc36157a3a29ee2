# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read paths as sets of files compare them, and find the records of the sets."""

from __future__ import annotations

import os
import stat

from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_plan import MISSING, State
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import open_file

STORE = "/var/lib/rigwright/config_files"
# It is there while a set is half changed (config_files_boot.py).
RECOVERY_UNIT = "/etc/systemd/system/rigwright-recover.service"


def read_state(path: str) -> State:
    """Return the state of a path. A link is reported, never followed."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return MISSING
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISREG(found.st_mode):
        # Another user may have put a link or a FIFO there since.
        with open(open_file(path), "rb") as file:
            return State("file", file.read(), mode, found.st_uid, found.st_gid)
    if stat.S_ISDIR(found.st_mode):
        return State("directory", None, mode, found.st_uid, found.st_gid)
    return State("link" if stat.S_ISLNK(found.st_mode) else "other", None, mode, found.st_uid, found.st_gid)


def names_of_sets(root: str = STORE) -> list[str]:
    try:
        return sorted(os.listdir(root))
    except FileNotFoundError:
        return []


def manifest_of(name: str, root: str = STORE) -> str:
    """Return the file that records the paths of a set."""
    return os.path.join(root, name, "manifest.json")


def journal_of(name: str, root: str = STORE) -> str:
    """Return the file that is there while a set is half changed."""
    return os.path.join(root, name, "journal.json")


def open_sets(root: str = STORE) -> list[str]:
    """Name the sets that an interrupted run, or one that is at work, has left half changed."""
    return [name for name in names_of_sets(root) if os.path.exists(journal_of(name, root))]

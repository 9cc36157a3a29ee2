# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read users and the owners of processes of a system below a root directory."""

from __future__ import annotations

import re

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree


def user_names(tree: Tree) -> dict[int, str]:
    """Return the names of the users in /etc/passwd by their number."""
    # A user may choose a name in full with any line break of Unicode but a line feed.
    rows = [line.split(":") for line in tree.text("/etc/passwd").split("\n")]
    return {int(row[2]): row[0] for row in rows if len(row) == 7 and row[2].isdecimal()}


def owner_of(tree: Tree, pid: int) -> int | None:
    """Return the number of the user of a process; None for one that has ended, or is in another namespace."""
    line = re.search(r"^Uid:\s*(\d+)", tree.text(f"/proc/{pid}/status"), re.MULTILINE)
    return int(line.group(1)) if line else None

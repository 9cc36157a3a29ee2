# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Validate a request for displays. Each problem names a variable and a remedy; any problem blocks all changes."""

from __future__ import annotations

import os
import re
import stat
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import UnitRow
from ansible_collections.rigwright.workstation.plugins.module_utils._status.status_options import StatusOptions

MIN_S, MAX_S = 2, 3600
_UNITS = "/etc/systemd/system"


def is_terminal(name: str) -> bool:
    """Return True if the host has a character device of this name."""
    try:
        return stat.S_ISCHR(os.stat(f"/dev/{name}").st_mode)
    except OSError:
        return False


def problems(request: StatusOptions, has_terminal: t.Callable[[str], bool] = is_terminal) -> list[Problem]:
    """Return the problems of a request."""
    found = []
    console, interval_s = request["console"], request["interval_s"]
    if console and not re.fullmatch(r"tty[1-9][0-9]?", console):
        found.append(
            problem(
                "status_console", f"is {console!r}, which is no virtual console", "set it to tty1, or leave it empty"
            )
        )
    elif console and not has_terminal(console):
        found.append(
            problem(
                "status_console",
                f"is {console}, and the host has no /dev/{console}",
                "name a console that `ls /dev/tty*` shows; a container and many virtual machines have none: leave it empty",
            )
        )
    if not MIN_S <= interval_s <= MAX_S:
        found.append(
            problem("status_interval_s", f"is {interval_s}", f"set it to a number from {MIN_S} to {MAX_S}, such as 15")
        )
    return found


def logins_due(request: StatusOptions, tree: Tree) -> list[UnitRow]:
    """Return the unit of the login that gets back the console of an earlier run."""
    before = re.search(
        r"^TTYPath=/dev/(tty\d+)$", tree.text(f"{_UNITS}/rigwright-status-console.service"), re.MULTILINE
    )
    wanted = request["console"] if request["state"] == "present" else ""
    if not before or before[1] == wanted:
        return []
    login = f"getty@{before[1]}.service"
    # A login that the administrator has masked stays so.
    return [] if tree.link(f"{_UNITS}/{login}") == "/dev/null" else [{"name": login, "state": "started"}]

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the desktops under xrdp and their users from the processes of a host. Pure.

A process of root holds each desktop: a child of xrdp-sesman with the same name (0.9), or xrdp-sesexec (0.10). A restarted xrdp-sesman
does not know the desktops of the former one: they keep running, and a login starts another one.
"""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.plan import Session

MANAGER = "xrdp-sesman"
HOLDERS = (MANAGER, "xrdp-sesexec")
# Every desktop has one of these.
CHANNELS = "xrdp-chansrv"


class Process(t.NamedTuple):
    """A process with the name of its user."""

    pid: int
    parent: int
    name: str
    user: str


def find_sessions(processes: t.Sequence[Process]) -> list[Session]:
    """Return the desktops, sorted by the names of their users."""
    by_pid = {process.pid: process for process in processes}
    found = set()
    for process in processes:
        if process.name != CHANNELS:
            continue
        holder = by_pid.get(process.parent)
        manager = by_pid.get(holder.parent) if holder and holder.name in HOLDERS else None
        found.add(Session(process.user, lost=manager is None or manager.name != MANAGER))
    return sorted(found, key=lambda session: (session.user, session.lost))

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the desktops under xrdp and their users, from the processes of a host and what logind lists. Pure.

A process of root holds each desktop: a child of xrdp-sesman with the same name (0.9), or xrdp-sesexec (0.10). What runs in the desktop
are its children; any of them may have crashed, xrdp-chansrv above all. A restarted xrdp-sesman does not know the desktops of the former
one: they keep running, and a login starts another one.
"""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.plan import Session

MANAGER = "xrdp-sesman"
HOLDERS = (MANAGER, "xrdp-sesexec")
# Every desktop begins with one of these. They stay where the holder is gone, and are then adopted by the first process.
CHANNELS = "xrdp-chansrv"
SERVERS = ("Xorg", "Xvnc", "X11rdp", CHANNELS)
FIRST = 1


class Process(t.NamedTuple):
    """A process with the name of its user."""

    pid: int
    parent: int
    name: str
    user: str


class Login(t.NamedTuple):
    """A session of logind: its user, its first process, and the service of PAM that opened it."""

    user: str
    leader: int
    service: str


def find_sessions(processes: t.Sequence[Process], logins: t.Sequence[Login] = ()) -> list[Session]:
    """Return the desktops, sorted by the names of their users."""
    by_pid = {process.pid: process for process in processes}

    def is_held(holder: Process) -> bool:
        manager = by_pid.get(holder.parent)
        return manager is not None and manager.name == MANAGER

    found = set()
    for process in processes:
        holder = by_pid.get(process.parent)
        if holder and holder.name in HOLDERS and holder.user == "root":
            # PAM's own programs run as root while a user logs in.
            if process.name not in HOLDERS and (process.user != "root" or process.name in SERVERS):
                found.add(Session(process.user, lost=not is_held(holder)))
        elif process.name == CHANNELS and (holder is None or holder.pid == FIRST):
            found.add(Session(process.user, lost=True))
    users = {session.user for session in found}
    for login in logins:
        if login.service == MANAGER and login.user not in users:
            leader = by_pid.get(login.leader)
            found.add(Session(login.user, lost=leader is None or not is_held(leader)))
    return sorted(found, key=lambda session: (session.user, session.lost))

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hosts on which no task has changed anything since a role was planned there.

The callback ``report`` notes them in the process from which Ansible forks its workers, so the actions of later tasks know them. Without
the callback there are none.
"""

from __future__ import annotations

_PLANNED: dict[str, str] = {}


def note_plan(host: str, role: str) -> None:
    _PLANNED[host] = role


def note_change(host: str) -> None:
    _PLANNED.pop(host, None)


def note_change_anywhere() -> None:
    _PLANNED.clear()


def is_as_planned(host: str, role: str) -> bool:
    """Return whether the plan of a role is the last on a host, and nothing changed since."""
    return _PLANNED.get(host) == role

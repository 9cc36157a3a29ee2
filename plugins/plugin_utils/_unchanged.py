# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plans of roles since which no task has changed the host.

The callback ``report`` notes them in the process from which Ansible forks its workers, so the actions of later tasks know them. Without
the callback there are none.
"""

from __future__ import annotations

import secrets
import threading

# Workers inherit it. A worker that was forked before this module was loaded has another one.
KEY = secrets.token_bytes(32)
# By host and role, the task that has planned it last. No role: all of them, ahead.
_PLANNED: dict[str, dict[str | None, str]] = {}
_WATCHED = threading.Event()


def watch() -> None:
    """Record that plans and changes are noted from now on."""
    _WATCHED.set()


def is_watched() -> bool:
    """Return whether plans and changes are noted. If not, a plan ahead is of no use."""
    return _WATCHED.is_set()


def note_plan(host: str, role: str | None, task: str) -> None:
    """Note a task of the action ``plan``.

    :param role: None if the task planned roles ahead.
    """
    if role is None:
        _PLANNED[host] = {}
    _PLANNED.setdefault(host, {})[role] = task


def note_change(host: str) -> None:
    _PLANNED.pop(host, None)


def note_change_anywhere() -> None:
    _PLANNED.clear()


def is_as_planned(host: str, role: str) -> bool:
    """Return whether a role has planned on a host, and nothing has changed there since."""
    return role in _PLANNED.get(host, {})


def is_as_planned_ahead(host: str, role: str, task: str) -> bool:
    """Return whether nothing has changed on a host since *task* planned ahead, and the role has not planned since."""
    planned = _PLANNED.get(host, {})
    return planned.get(None) == task and role not in planned

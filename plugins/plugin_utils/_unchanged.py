# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plans of roles since which no task has changed the host.

The callback ``report`` passes on how tasks end, in the process from which Ansible forks its workers, so the actions of later tasks know.
Without the callback there are none.
"""

from __future__ import annotations

import secrets
import threading
from typing import Any

from ansible_collections.rigwright.workstation.plugins.plugin_utils._report import own_role

PLAN = "rigwright.workstation.plan"
# Modules that change nothing, whatever becomes of their result.
READERS = ("slurp", "stat", "find", "setup", "assert", "debug", "set_fact")

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


def hear(result: Any, failed: bool) -> None:
    """Note how a task has ended on a host.

    :param failed: what it has changed before is unknown.
    """
    task, host = result.task, result.host.get_name()
    if failed or result.is_changed() or (not result.is_skipped() and _may_have_changed(task)):
        # A delegated task has changed another host.
        if task.delegate_to:
            note_change_anywhere()
        else:
            note_change(host)
    elif task.action == PLAN:
        note_plan(host, own_role(task), task._uuid)


def _may_have_changed(task: Any) -> bool:
    """Return whether a task says itself whether it has changed or failed, or still runs, and is none that only reads."""
    decides = task.changed_when or task.failed_when or task.async_val
    return bool(decides) and task.action.rpartition(".")[2] not in READERS


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

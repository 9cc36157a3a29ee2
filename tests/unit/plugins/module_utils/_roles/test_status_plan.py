# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of the displays, as the action `plan` calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._roles import status as status_role

from tests.unit.support.plan import run_plan

RunModule = Callable[..., dict[str, Any]]


def test_defaults_are_accepted(run_module: RunModule) -> None:
    assert run_plan(run_module, status_role, {})["requirements"] == []


def test_all_problems_are_returned_at_once(run_module: RunModule) -> None:
    found = run_plan(run_module, status_role, {}, console="tty1;reboot", interval_s=0)["requirements"]
    assert [row["variable"] for row in found] == ["status_console", "status_interval_s"]


def test_removal_is_never_refused(run_module: RunModule) -> None:
    assert run_plan(run_module, status_role, {}, state="absent", console="tty1;reboot")["requirements"] == []

# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plan in a real run: what it refuses before a module starts, and what it never shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]
SECRET = "nobody-may-see-this-password"
USERS = [{"name": "alice", "password": SECRET, "passphrase": "x"}]


def plan_of_samba(**variables: Any) -> list[dict[str, Any]]:
    include = {"name": "rigwright.workstation.samba", "tasks_from": "plan"}
    return [{"ansible.builtin.include_role": include, "vars": {"__samba_context": {}, **variables}}]


def test_all_wrong_values_are_refused_before_a_module_starts(run_tasks: Run) -> None:
    run = run_tasks(plan_of_samba(samba_users=USERS, samba_port="many", samba_encrypt="perhaps"), "-vvv")
    assert run.rc == 2 and "The request is refused" in run.output
    for name in ("samba_port", "samba_encrypt", "passphrase"):
        assert name in run.output
    assert SECRET not in run.output.replace("\n", "")
    assert run.report["hosts"]["localhost"]["roles"]["samba"]["module_runs"] == 0


def test_it_is_for_roles_alone(run_tasks: Run) -> None:
    run = run_tasks([{"rigwright.workstation.plan": {}}])
    assert run.rc == 2 and "call it from a role" in " ".join(run.output.split())


@pytest.mark.parametrize("action", ["plan", "verify"])
def test_an_unknown_argument_is_refused(run_tasks: Run, action: str) -> None:
    run = run_tasks([{f"rigwright.workstation.{action}": {"that": []}}])
    assert run.rc == 2 and "that" in run.output

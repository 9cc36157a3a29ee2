# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What config_files takes from the plan of a role (_core/plan.py). Works on the controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail

PARTS = ("directories", "files", "checks", "units")


def with_plan(arguments: Mapping[str, Any], role: str | None) -> dict[str, Any]:
    """Return the arguments of a task with the parts of its plan, where the task does not give them itself."""
    given = dict(arguments)
    plan = given.pop("plan", None)
    if plan is None:
        return given
    if not isinstance(plan, Mapping) or not all(part in plan for part in PARTS):
        raise AnsibleActionFail("plan must be the registered result of rigwright.workstation.plan.")
    if role is None and "name" not in given:
        raise AnsibleActionFail("outside a role, config_files with a plan needs name, such as the name of the role.")
    # What is restored is the host's own: no program of the role has to accept it, or to be there still.
    parts = [part for part in PARTS if part != "checks" or given.get("state") != "absent"]
    return {"name": role, **{part: plan[part] for part in parts}, **given}


def findings_of(plan: Any, result: Mapping[str, Any]) -> list[Mapping[str, str]]:
    """Return the findings of a plan, and that on units which wait for a restart."""
    if not isinstance(plan, Mapping):
        return []
    pending, waiting = plan.get("pending"), result["pending"]
    found = list(plan.get("findings", []))
    if pending:
        evidence = f"{', '.join(waiting)} {pending['waits']}" if waiting else pending["done"]
        status = "warn" if waiting else "pass"
        found.append({"id": pending["id"], "status": status, "evidence": evidence, "remedy": pending["remedy"]})
    return found

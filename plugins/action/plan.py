# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan a role with its request, and refuse all problems at once. Or plan several roles ahead, in one module run."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_action import (
    OF_ROLES,
    Call,
    NotRun,
    RoleAction,
    refused,
)
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_request import Invalid
from ansible_collections.rigwright.workstation.plugins.plugin_utils._requirements import refusal
from ansible_collections.rigwright.workstation.plugins.plugin_utils._role import Variables
from ansible_collections.rigwright.workstation.plugins.plugin_utils._unchanged import (
    is_as_planned_ahead,
    is_watched,
)

ARGUMENTS = {
    **OF_ROLES,
    "requirements": {"type": "list", "elements": "dict", "default": []},
    "refuse": {"type": "bool", "default": True},
}
# The plans of roles that come later in the run.
REGISTERED = "__common_plans"


class ActionModule(RoleAction):
    """plan"""

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> JsonObject:
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(argument_spec=ARGUMENTS)
        variables = task_vars or {}
        if "roles" in self._task.args:
            return self._plan_ahead(arguments["roles"], variables)
        try:
            call = self._call("plan", variables)
        except Invalid as error:
            return refused(error)
        plan = self._planned_ahead(call, variables) or self._start_one(call, variables)
        requirements = [*plan.get("requirements", []), *arguments["requirements"]]
        message = refusal(requirements) if arguments["refuse"] else ""
        # First: a module may fail by what is refused here.
        if message:
            return {"failed": True, "changed": False, "msg": message}
        if plan.get("failed"):
            return plan
        if files := call.secret_files():
            plan = {**plan, "files": [*plan["files"], *files], "_ansible_no_log": True}
        return {**plan, "requirements": requirements}

    def _plan_ahead(self, roles: Sequence[str], variables: Variables) -> JsonObject:
        # A name, or from ansible-core 2.21 on names with expressions.
        if REGISTERED not in (self._task.register or ()):
            raise AnsibleActionFail(f"plans of several roles are for their own tasks: register {REGISTERED}.")
        calls = {}
        for role in roles if is_watched() else ():
            # Some have none. What is wrong with the request of a role is for its own plan to say, in its place.
            with contextlib.suppress(Invalid, AnsibleError, TypeError):
                call = self._call_of("plan", role, variables)
                calls[call.key] = call
        planned: JsonObject = {"changed": False, "task": self._task._uuid, "plans": {}}
        try:
            results = self._start(list(calls.values()), variables)
        except NotRun as error:
            return {**planned, "warnings": [f"The roles were not planned ahead, so each plans itself: {error}"]}
        is_secret = any(result.pop("_ansible_no_log", False) for result in results.values())
        planned["plans"] = {call.role: {"key": key, "plan": results[call.role]} for key, call in calls.items()}
        return {**planned, "_ansible_no_log": is_secret}

    @staticmethod
    def _planned_ahead(call: Call, variables: Variables) -> JsonObject | None:
        """Return the plan that was made ahead, if it was made for the same request, and nothing has changed on the host since."""
        ahead = variables.get(REGISTERED) or {}
        planned = ahead.get("plans", {}).get(call.role, {})
        if planned.get("key") != call.key or planned["plan"].get("failed"):
            return None
        if not is_as_planned_ahead(variables.get("inventory_hostname", ""), call.role, ahead["task"]):
            return None
        return call.shown(dict(planned["plan"]))

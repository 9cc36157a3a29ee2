# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan a role: start its plan module with its request, and refuse all problems at once."""

from __future__ import annotations

from typing import Any

from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_action import CONTEXT, RoleAction, refused
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_request import Invalid
from ansible_collections.rigwright.workstation.plugins.plugin_utils._requirements import refusal

ARGUMENTS = {
    **CONTEXT,
    "requirements": {"type": "list", "elements": "dict", "default": []},
    "refuse": {"type": "bool", "default": True},
}


class ActionModule(RoleAction):
    """plan"""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(argument_spec=ARGUMENTS)
        try:
            plan = self._run_module("plan", arguments["context"], task_vars or {})
        except Invalid as error:
            return refused(error)
        if plan.get("failed"):
            return plan
        requirements = [*plan.get("requirements", []), *arguments["requirements"]]
        message = refusal(requirements) if arguments["refuse"] else ""
        if message:
            return {"failed": True, "changed": False, "msg": message}
        return {**plan, "requirements": requirements}

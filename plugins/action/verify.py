# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prove a role, or several in one module run, with their requests, and record the findings."""

from __future__ import annotations

from collections.abc import Sequence

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.plugin_utils._finding import parse, recorded
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_action import (
    OF_ROLES,
    NotRun,
    RoleAction,
    refused,
)
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_request import Invalid, without_secrets
from ansible_collections.rigwright.workstation.plugins.plugin_utils._role import Variables


class ActionModule(RoleAction):
    """verify"""

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> JsonObject:
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(argument_spec=OF_ROLES)
        variables = task_vars or {}
        if "roles" in self._task.args:
            return self._verify_all(arguments["roles"], variables)
        try:
            result = self._start_one(self._call("verify", variables), variables)
        except Invalid as error:
            return refused(error)
        if result.get("failed"):
            return result
        return {**result, **recorded(_findings(result), self._task, variables)}

    def _verify_all(self, roles: Sequence[str], variables: Variables) -> JsonObject:
        calls, findings, warnings = [], [], []
        for role in roles:
            try:
                call = self._call_of("verify", role, variables)
                if call.request.get("state") != "absent":
                    calls.append(call)
            except (Invalid, AnsibleError, TypeError) as error:
                findings.append(_not_verified(role, error, "correct the variable"))
        try:
            results = self._start(calls, variables)
        except NotRun as error:
            return {**error.result, "failed": True, "changed": False}
        for call in calls:
            result = results[call.role]
            warnings += result.get("warnings", [])
            if result.get("failed"):
                remedy = f"apply the role {call.role} first, or report the message as a bug"
                failed = _not_verified(call.role, result.get("msg", ""), remedy)
                findings.append(without_secrets(failed, call.options, call.values))
            else:
                findings += _findings(result)
        return {**recorded(findings, self._task, variables), "warnings": warnings}


def _findings(result: JsonObject) -> list[Finding]:
    try:
        return [parse(finding) for finding in result.pop("findings")]
    except ValueError as error:
        raise AnsibleActionFail(str(error)) from error


def _not_verified(role: str, problem: object, remedy: str) -> Finding:
    return {
        "id": f"{role}.verification",
        "status": "fail",
        "evidence": f"the role was not verified: {problem}",
        "remedy": remedy,
    }

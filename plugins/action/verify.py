# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verify a role: start its verify module with its request, and record the findings."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.rigwright.workstation.plugins.plugin_utils._finding import parse, recorded
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_action import CONTEXT, RoleAction, refused
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_request import Invalid


class ActionModule(RoleAction):
    """verify"""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(argument_spec=CONTEXT)
        try:
            result = self._run_module("verify", arguments["context"], task_vars or {})
        except Invalid as error:
            return refused(error)
        if result.get("failed"):
            return result
        try:
            findings = [parse(finding) for finding in result.pop("findings")]
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from error
        return {**result, **recorded(findings, self._task, task_vars or {})}

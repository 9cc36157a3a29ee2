# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Record findings about a host, on the controller alone."""

from __future__ import annotations

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.plugin_utils._finding import KEYS, parse, recorded
from ansible_collections.rigwright.workstation.plugins.plugin_utils._role import Variables


class ActionModule(ActionBase):
    _requires_connection = False
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> JsonObject:
        super().run(tmp, task_vars)
        if self._task.loop is not None:
            # Each iteration has the facts from before the loop, so only the last finding would stay.
            raise AnsibleActionFail("finding keeps only the last turn of a loop: give the list as `findings` instead.")
        _validation, arguments = self.validate_argument_spec(
            argument_spec={
                "findings": {"type": "raw"},
                "forget": {"type": "bool", "default": False},
                **{key: {"type": "raw"} for key in KEYS},
            },
            mutually_exclusive=[("findings", key) for key in KEYS],
        )
        if arguments["forget"]:
            return {"changed": False, "findings": [], "ansible_facts": {"rigwright_findings": []}}
        if arguments["findings"] is None and arguments["id"] is None:
            raise AnsibleActionFail("one of the following is required: findings, id, forget")
        findings = arguments["findings"]
        if findings is None:
            findings = [{key: arguments[key] for key in KEYS}]
        if not isinstance(findings, list):
            raise AnsibleActionFail("findings must be a list of findings.")
        try:
            parsed = [parse(finding) for finding in findings]
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from error
        return recorded(parsed, self._task, task_vars or {})

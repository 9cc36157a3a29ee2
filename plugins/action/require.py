# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refuse a request that cannot be met, with all its problems at once."""

from __future__ import annotations

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.plugin_utils._requirements import refusal
from ansible_collections.rigwright.workstation.plugins.plugin_utils._role import Variables


class ActionModule(ActionBase):
    _requires_connection = False
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> JsonObject:
        super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(argument_spec={"that": {"type": "raw", "required": True}})
        try:
            message = refusal(arguments["that"])
        except ValueError as error:
            raise AnsibleActionFail(f"{error}.") from error
        if message:
            return {"failed": True, "changed": False, "msg": message}
        return {"changed": False}

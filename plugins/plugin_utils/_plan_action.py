# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the actions plan and verify share: they start an internal module of the calling role with the role's request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_request import (
    Invalid,
    options_of,
    request_of,
    without_secrets,
)
from ansible_collections.rigwright.workstation.plugins.plugin_utils._report import short_role

CONTEXT = {"context": {"type": "dict", "default": {}}}


class RoleAction(ActionBase):
    """An action that is called from a role and starts one of its internal modules."""

    _supports_check_mode = True
    _requires_connection = True

    @property
    def _role(self) -> str:
        role = self._task._role
        if role is None:
            raise AnsibleActionFail(
                "the action reads the argument spec of the role that calls it: call it from a role."
            )
        return short_role(role.get_name())

    def _run_module(self, kind: str, context: Mapping[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Start ``<role>_<kind>`` on the host. A plan that was made with secrets, or that found some (``secret``), is not shown.

        Findings are recorded and shown, so secrets of the request are masked in them.

        :raises Invalid: a variable does not fit the argument spec.
        """
        role = self._role
        options = options_of(self._task._role._role_path)
        # Each variable by itself: one that cannot be templated is then named in the error.
        values = {name: self._templar.template(task_vars[name]) for name in options if name in task_vars}
        request, secrets = request_of(role, options, values)
        planned = self._templar.template(task_vars.get("__common_planned", {})) if self._task.check_mode else {}
        result: dict[str, Any] = self._execute_module(
            module_name=f"rigwright.workstation.{role}_{kind}",
            module_args={
                "request": request,
                "context": {**context, "planned": planned},
                "secrets": json.dumps(secrets) if secrets else "",
            },
            task_vars=task_vars,
        )
        if "findings" in result:
            result["findings"] = without_secrets(result["findings"], options, values)
        if kind == "plan" and (any(secrets.values()) or result.get("secret")) and not result.get("failed"):
            result["_ansible_no_log"] = True
        return result


def refused(error: Invalid) -> dict[str, Any]:
    """Return the result for variables that do not fit the argument spec."""
    return {"failed": True, "changed": False, "msg": f"The request is refused:\n{error}"}

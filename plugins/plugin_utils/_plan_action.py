# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the actions plan and verify share: they start internal modules of roles with the requests of the roles."""

from __future__ import annotations

import base64
import datetime
import hmac
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.rigwright.workstation.plugins.module_utils._core.bundle import collect_all
from ansible_collections.rigwright.workstation.plugins.module_utils._core.forked import ALONE, MODULES
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_request import (
    Invalid,
    Options,
    options_of,
    request_of,
    values_of,
    without_secrets,
)
from ansible_collections.rigwright.workstation.plugins.plugin_utils._report import short_role
from ansible_collections.rigwright.workstation.plugins.plugin_utils._role import ROLES, variables_in
from ansible_collections.rigwright.workstation.plugins.plugin_utils._unchanged import KEY

OF_ROLES: dict[str, dict[str, Any]] = {"roles": {"type": "list", "elements": "str", "default": []}}


@dataclass(frozen=True)
class Call:
    """An internal module of a role, and its arguments."""

    role: str
    module: str
    arguments: dict[str, Any]
    options: Options
    values: Mapping[str, Any]
    has_secrets: bool

    def shown(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return a result without the secrets of the request. A plan that was made with secrets, or that found some, is not shown.

        Findings are recorded and shown, so secrets are masked in them.
        """
        if "findings" in result:
            result["findings"] = without_secrets(result["findings"], self.options, self.values)
        is_plan = self.module.endswith("_plan")
        if is_plan and (self.has_secrets or result.get("secret")) and not result.get("failed"):
            result["_ansible_no_log"] = True
        return result

    @property
    def key(self) -> str:
        """Return what tells this call from others in this run of Ansible, and nobody what is in it."""
        text = _as_json([self.module, self.arguments])
        return hmac.new(KEY, text.encode(), "sha256").hexdigest()


class NotRun(Exception):
    """A module run has failed; ``result`` is what Ansible has of it."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__(result.get("msg") or result.get("module_stderr") or "the module has failed")
        self.result = result


def _as_json(value: Any) -> str:
    """Return a value of a variable as Ansible hands it to modules: a date as text.

    :raises TypeError: no module can have such a value.
    """

    def text(found: Any) -> str:
        if isinstance(found, datetime.date):
            return found.isoformat()
        raise TypeError(f"{type(found).__name__} is no value for a module")

    return json.dumps(value, default=text)


class RoleAction(ActionBase):
    """An action that starts internal modules: of the role that calls it, or of several roles."""

    _supports_check_mode = True
    _requires_connection = True

    @property
    def _role(self) -> str:
        role = self._task._role
        if role is None:
            raise AnsibleActionFail(
                "the action reads the argument spec of the role that calls it: call it from a role, or set `roles`."
            )
        return short_role(role.get_name())

    def _call(self, kind: str, task_vars: Mapping[str, Any]) -> Call:
        """Return the call of the module ``<role>_<kind>`` of the calling role.

        :raises Invalid: a variable does not fit the argument spec.
        """
        role = self._role
        return self._call_with(kind, role, self._task._role._role_path, task_vars, self._templar)

    def _call_of(self, kind: str, role: str, task_vars: Mapping[str, Any]) -> Call:
        """Return the call for a role that is not the calling one.

        :raises Invalid: a variable does not fit the argument spec.
        :raises TypeError: a variable has a value that no module can have.
        """
        if not (ROLES.parent / "plugins" / "modules" / f"{role}_{kind}.py").is_file():
            raise AnsibleActionFail(f"this collection has no role {role} with a module {role}_{kind}")
        variables = variables_in(ROLES / role, self._loader, task_vars)
        templar = self._templar.copy_with_new_env(available_variables=variables)
        call = self._call_with(kind, role, str(ROLES / role), variables, templar)
        _as_json(call.arguments)
        return call

    def _call_with(self, kind: str, role: str, path: str, variables: Mapping[str, Any], templar: Any) -> Call:
        options = options_of(path)
        values = values_of(options, variables, templar)
        request, secrets = request_of(role, options, values)
        context = variables.get(f"__{role}_{kind}_context", variables.get(f"__{role}_context", {}))
        planned = templar.template(variables.get("__common_planned", {})) if self._task.check_mode else {}
        arguments = {
            "request": request,
            "context": {**templar.template(context), "planned": planned},
            "secrets": _as_json(secrets) if secrets else "",
        }
        return Call(role, f"{role}_{kind}", arguments, options, values, any(secrets.values()))

    def _start(self, call: Call, task_vars: dict[str, Any]) -> dict[str, Any]:
        """Start a module on the host."""
        result: dict[str, Any] = self._execute_module(
            module_name=f"rigwright.workstation.{call.module}", module_args=call.arguments, task_vars=task_vars
        )
        return call.shown(result)

    def _start_all(self, calls: Sequence[Call], task_vars: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Start the modules of several roles in one module run, and return the results by role.

        :raises NotRun: the module run itself has failed.
        """
        if len(calls) < 2:
            return {call.role: self._start(call, task_vars) for call in calls}
        sources = collect_all(f"{MODULES}.{call.module}" for call in calls)
        done: dict[str, Any] = self._execute_module(
            module_name="rigwright.workstation.role_modules",
            module_args={
                "sources": base64.b64encode(zlib.compress(json.dumps(sources).encode())).decode(),
                "calls": _as_json({call.module: call.arguments for call in calls}),
            },
            task_vars=task_vars,
        )
        if done.get("failed") or done.get("unreachable"):
            raise NotRun(done)
        results = done["by_module"]
        return {
            call.role: self._start(call, task_vars)
            if results[call.module] == ALONE
            else call.shown(results[call.module])
            for call in calls
        }


def refused(error: Invalid) -> dict[str, Any]:
    """Return the result for variables that do not fit the argument spec."""
    return {"failed": True, "changed": False, "msg": f"The request is refused:\n{error}"}

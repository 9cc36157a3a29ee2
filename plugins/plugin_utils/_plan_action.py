# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the actions plan and verify share: they start the module ``role`` with the requests of roles."""

from __future__ import annotations

import base64
import datetime
import hmac
import importlib
import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.rigwright.workstation.plugins.module_utils._core.bundle import PACKAGE as MODULE_UTILS
from ansible_collections.rigwright.workstation.plugins.module_utils._core.bundle import collect_all
from ansible_collections.rigwright.workstation.plugins.module_utils._core.forked import ALONE
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject, Spec
from ansible_collections.rigwright.workstation.plugins.plugin_utils import _check_mode as check_mode
from ansible_collections.rigwright.workstation.plugins.plugin_utils._internals import hidden_output
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_request import (
    Invalid,
    options_of,
    request_of,
    values_of,
    without_secrets,
)
from ansible_collections.rigwright.workstation.plugins.plugin_utils._report import own_role
from ansible_collections.rigwright.workstation.plugins.plugin_utils._role import ROLES, Variables, variables_in
from ansible_collections.rigwright.workstation.plugins.plugin_utils._unchanged import KEY

# The code of the roles, and what runs it on hosts (module_utils).
PACKAGE, ENTRY = "_roles", "_system.role_run"
OF_ROLES: Spec = {"roles": {"type": "list", "elements": "str", "default": []}}


@dataclass(frozen=True)
class Call:
    """A role to plan or to prove. The request has the secrets, too.

    :param kind: plan or verify.
    """

    role: str
    kind: str
    request: JsonObject
    options: Spec
    values: Variables
    has_secrets: bool

    def shown(self, result: JsonObject) -> JsonObject:
        """Return a result without the secrets of the request. A plan that was made with secrets, or that found some, is not shown.

        Findings are recorded and shown, so secrets are masked in them.
        """
        if "findings" in result:
            result["findings"] = without_secrets(result["findings"], self.options, self.values)
        if self.kind == "plan" and (self.has_secrets or result.get("secret")) and not result.get("failed"):
            result["_ansible_no_log"] = True
        return result

    def secret_files(self) -> list[dict[str, Any]]:
        """Return the files that have secrets of the request. They are made on the controller, so that no host returns a secret."""
        if not has(self.role, "secret_files"):
            return []
        code = importlib.import_module(f"{MODULE_UTILS}.{PACKAGE}.{self.role}")
        files: list[dict[str, Any]] = code.secret_files(self.request)
        return files

    @property
    def key(self) -> str:
        """Return what tells this call from others in this run of Ansible, and nobody what is in it."""
        text = _as_json([self.role, self.kind, self.request])
        return hmac.new(KEY, text.encode(), "sha256").hexdigest()


class NotRun(Exception):
    """A module run has failed; ``result`` is what Ansible has of it."""

    def __init__(self, result: JsonObject) -> None:
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
    """An action that plans or proves the role that calls it, or several roles."""

    _supports_check_mode = True
    _requires_connection = True

    @property
    def _role(self) -> str:
        role = own_role(self._task)
        if role is None:
            raise AnsibleActionFail(
                "the action reads the argument spec of the role that calls it: call it from a role, or set `roles`."
            )
        return role

    def _call(self, kind: str, task_vars: Variables) -> Call:
        """Return the call for the calling role.

        :raises Invalid: a variable does not fit the argument spec.
        """
        role = self._role
        return self._call_with(kind, role, self._task._role._role_path, task_vars, self._templar)

    def _call_of(self, kind: str, role: str, task_vars: Variables) -> Call:
        """Return the call for a role that is not the calling one.

        :raises Invalid: a variable does not fit the argument spec.
        :raises TypeError: a variable has a value that no module can have.
        """
        if not has(role, kind):
            raise AnsibleActionFail(f"this collection has no role {role} with a function {kind}")
        variables = variables_in(ROLES / role, self._loader, task_vars)
        templar = self._templar.copy_with_new_env(available_variables=variables)
        call = self._call_with(kind, role, str(ROLES / role), variables, templar)
        _as_json(call.request)
        return call

    def _call_with(self, kind: str, role: str, path: str, variables: Variables, templar: Any) -> Call:
        options = options_of(path)
        values = values_of(options, variables, templar)
        request, secrets = request_of(role, options, values)
        context = templar.template(context_of(role, kind, variables))
        planned = check_mode.planned(variables) if self._task.check_mode else {}
        whole = {**request, **secrets, **context, "planned": planned}
        return Call(role, kind, whole, options, values, any(secrets.values()))

    def _start(self, calls: Sequence[Call], task_vars: Variables) -> dict[str, JsonObject]:
        """Plan or prove roles in one module run, and return the results by role.

        :raises NotRun: the module run itself has failed.
        """
        if not calls:
            return {}
        names = [call.role for call in calls]
        sources = collect_all([f"{MODULE_UTILS}.{ENTRY}", *(f"{MODULE_UTILS}.{PACKAGE}.{name}" for name in names)])
        # Plans, and clients that prove a role, may return secrets of the host.
        with hidden_output(self._connection):
            done: JsonObject = self._execute_module(
                module_name="rigwright.workstation.role",
                module_args={
                    "sources": base64.b64encode(zlib.compress(json.dumps(sources).encode())).decode(),
                    "calls": _as_json(
                        {call.role: {"role": call.role, "kind": call.kind, "request": call.request} for call in calls}
                    ),
                    "name": names[0] if len(calls) == 1 else calls[0].kind,
                },
                task_vars=task_vars,
            )
        if done.get("failed") or done.get("unreachable"):
            raise NotRun(done)
        results: dict[str, JsonObject] = done["by_role"]
        # Those that need another Python of the host have been left out.
        alone = [call for call in calls if len(calls) > 1 and ALONE in results[call.role]]
        for call in alone:
            results[call.role] = self._start_one(call, task_vars)
        return {call.role: results[call.role] if call in alone else call.shown(results[call.role]) for call in calls}

    def _start_one(self, call: Call, task_vars: Variables) -> JsonObject:
        """Plan or prove one role, and return its result, or that of the module run that has failed."""
        try:
            return self._start([call], task_vars)[call.role]
        except NotRun as error:
            return {**error.result, "failed": True, "changed": False}


def context_of(role: str, kind: str, variables: Variables) -> Any:
    """Return what a role needs besides its options, not templated yet: its own variable, or that of all roles without one."""
    names = (f"__{role}_{kind}_context", f"__{role}_context", "__common_context")
    return next((variables[name] for name in names if name in variables), {})


def has(role: str, function: str) -> bool:
    """Return whether the code of a role has a function, such as plan or verify."""
    file = ROLES.parent / "plugins" / "module_utils" / PACKAGE / f"{role}.py"
    return file.is_file() and defines(file.read_text(encoding="utf-8"), function)


def defines(code: str, name: str) -> bool:
    """Return whether code has a function of this name, or is given one: `plan, verify = SERVICE.plan, SERVICE.verify`."""
    return re.search(rf"^(def {name}\(|[\w, ]*\b{name}\b[\w, ]* = )", code, re.MULTILINE) is not None


def refused(error: Invalid) -> JsonObject:
    """Return the result for variables that do not fit the argument spec."""
    return {"failed": True, "changed": False, "msg": f"The request is refused:\n{error}"}

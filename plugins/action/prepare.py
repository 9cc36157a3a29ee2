# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prepare a host for a role: refuse misspelled variables and unsupported hosts, and gather facts once a host and run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import lookup_loader
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_action import refused
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_request import (
    Invalid,
    options_of,
    request_of,
    values_of,
)
from ansible_collections.rigwright.workstation.plugins.plugin_utils._report import own_role
from ansible_collections.rigwright.workstation.plugins.plugin_utils._requirements import refusal
from ansible_collections.rigwright.workstation.plugins.plugin_utils._role import SHARED, Variables, platform_files

# A registered result, unlike a fact, is never one of an earlier run: listeners and disks in a fact cache are outdated.
REGISTERED = "__common_prepared"
PREFIX = "ansible_"
# The policy that starts no service, of a run that was killed while it installed packages (common/tasks/install_packages.yml).
LEFT = "common_no_starts"


class ActionModule(ActionBase):
    """prepare"""

    _supports_check_mode = True
    _requires_connection = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> JsonObject:
        super().run(tmp, task_vars)
        self.validate_argument_spec(argument_spec={})
        # A name, or from ansible-core 2.21 on names with expressions.
        if REGISTERED not in (self._task.register or ()):
            raise AnsibleActionFail(
                f"the action gathers facts once a run if it knows its last result: register {REGISTERED}."
            )
        # site.yml knows by it which role has failed.
        return {**self._prepare(task_vars or {}), "role": own_role(self._task) or ""}

    def _prepare(self, variables: Variables) -> JsonObject:
        message = refusal(self._misspelled(variables))
        if message:
            return {"failed": True, "changed": False, "msg": message}
        earlier: Variables = variables["ansible_facts"]
        if self._is_prepared(variables):
            return {"changed": False, "platform_files": self._platform_files(earlier)}
        try:
            self._check_shared(variables)
        except Invalid as error:
            return refused(error)
        result: JsonObject = self._execute_module(
            module_name="rigwright.workstation.host_facts",
            module_args={"setup": "service_mgr" not in earlier},
            task_vars=variables,
        )
        if result.get("failed"):
            return result
        facts = {**earlier, **{name.removeprefix(PREFIX): value for name, value in result["ansible_facts"].items()}}
        templar = self._templar.copy_with_new_env(available_variables={**variables, "ansible_facts": facts})
        message = refusal(templar.template(variables.get("__common_requirements", [])))
        if message:
            return {**result, "failed": True, "changed": False, "msg": message}
        return {
            **result,
            "changed": self._removed_policy(facts, variables),
            "platform_files": self._platform_files(facts),
        }

    def _misspelled(self, variables: Variables) -> list[Any]:
        lookup = lookup_loader.get(
            "rigwright.workstation.unknown_variables", loader=self._loader, templar=self._templar
        )
        found: list[Any] = lookup.run([], variables=variables)
        return found

    def _check_shared(self, variables: Variables) -> None:
        """Check the variables that belong to no single role.

        :raises Invalid: one does not fit its declaration.
        """
        options = options_of(str(SHARED), "prepare")
        request_of("common", options, values_of(options, variables, self._templar))

    @staticmethod
    def _is_prepared(variables: Variables) -> bool:
        """Return whether the host has facts of this run. A role that became root needs those that only root can read."""
        earlier, facts = variables.get(REGISTERED), variables["ansible_facts"]
        return bool(earlier and not earlier.get("failed") and facts.get("rigwright", {}).get("uid") == 0)

    def _platform_files(self, facts: Variables) -> list[str]:
        """Return the files with variables of the host's platform that the calling role has, the least specific first."""
        role = self._task._role
        return [] if role is None else [str(file) for file in platform_files(Path(role._role_path), facts)]

    def _removed_policy(self, facts: Variables, variables: Variables) -> bool:
        if LEFT not in facts["rigwright"]["managed"]:
            return False
        task = self._task.copy()
        task.args = {"name": LEFT, "state": "absent"}
        action = self._shared_loader_obj.action_loader.get(
            "rigwright.workstation.config_files",
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        result = action.run(task_vars=variables)
        if result.get("failed"):
            raise AnsibleActionFail(str(result.get("msg")))
        return bool(result.get("changed"))

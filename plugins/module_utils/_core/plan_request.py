# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The request that the actions ``plan`` and ``verify`` hand to the internal modules of a role."""

from __future__ import annotations

import json
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule

# The action has validated request and secrets against the argument spec of the role.
SPEC: dict[str, t.Any] = {
    "request": {"type": "dict", "required": True},
    "context": {"type": "dict", "default": {}},
    # Empty without any: Ansible masks this text wherever the result has it, and `{}` is the text of many files.
    "secrets": {"type": "str", "default": "", "no_log": True},
}


def role_module() -> tuple[HostModule, dict[str, t.Any]]:
    """Return the module and its request: the options of the role, the secrets among them, the context, and ``planned``.

    ``planned`` is what earlier tasks of the run would have made in check mode (roles/common/vars/main/planned.yml).
    """
    module = HostModule(argument_spec=SPEC, supports_check_mode=True)
    if os.geteuid() != 0:
        module.fail_json(msg="a plan reads what root alone may: set `become: true`")
    params = module.params
    request = {"planned": {}, **params["request"], **json.loads(params["secrets"] or "{}"), **params["context"]}
    return module, request if module.check_mode else {**request, "planned": {}}


def client_runner(module: HostModule) -> t.Callable[..., tuple[int, str, str]]:
    """Return ``run_command`` of a module; a program that is not installed ends with status 127 instead of ending the module."""

    def run(command: list[str], **options: t.Any) -> tuple[int, str, str]:
        try:
            outcome: tuple[int, str, str] = module.run_command(command, handle_exceptions=False, **options)
        except OSError as error:
            return 127, "", f"{command[0]}: {error.strerror}"
        return outcome

    return run

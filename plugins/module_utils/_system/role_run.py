# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan or prove one role: what the module ``role`` does for each of its calls."""

from __future__ import annotations

import importlib
import typing as t

from ansible.module_utils.common.warnings import get_warning_messages
from ansible_collections.rigwright.workstation.plugins.module_utils._core import config_files_plan
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan import Plan
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Call, JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._system import drop_ins
from ansible_collections.rigwright.workstation.plugins.module_utils._system.configured import configured_sets

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ROLES = "ansible_collections.rigwright.workstation.plugins.module_utils._roles"


def load(call: Call, module: AnsibleModule) -> t.Callable[[], JsonObject]:
    """Import the code of a role, and return what runs it.

    :param call: ``role``, ``kind`` (plan or verify), and ``request``: options of the role, their secrets among them, what else it
        needs, and ``planned``, what earlier roles would have made in check mode (plugin_utils/_check_mode.py).
    """
    role, request = call["role"], call["request"]
    function = getattr(importlib.import_module(f"{ROLES}.{role}"), call["kind"])

    def run() -> JsonObject:
        host, before = Host(module), get_warning_messages()
        planned = request.get("planned") or {} if host.check_mode else {}
        try:
            found = function({**request, "planned": planned}, host)
            if call["kind"] == "plan":
                planned_steps = found.result() if isinstance(found, Plan) else found
                result = {**planned_steps, "configured_sets": configured_sets(host.run_command, role)}
            else:
                result = {"findings": [*found, *_out_of_force(role)]}
        except config_files_plan.Refused as error:
            # A damaged record is refused by what reads it.
            result = {**getattr(error, "result", {}), "failed": True, "msg": str(error)}
        # Readers of programs warn without a host (_core/lines.py).
        warned = [text for text in get_warning_messages() if text not in before]
        return {"changed": False, **result, "warnings": [*host.warnings, *warned]}

    return run


def _out_of_force(role: str) -> list[Finding]:
    """Return what others put out of force of a role; what keeps it from being read is a finding, and loses no other."""
    try:
        return drop_ins.findings(Tree(), role)
    except (config_files_plan.Refused, OSError) as error:
        return [finding(f"{role}.drop_ins", "fail", str(error), "run the role again")]

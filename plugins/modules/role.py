#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: role
short_description: Plan or prove roles on the host (internal)
description:
  - Called by M(rigwright.workstation.plan) and M(rigwright.workstation.verify). Changes nothing.
  - Each role is planned or proved in a process of its own, some at the same time. Python, and what they share, is loaded once.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  sources:
    description: The sources of the roles and of what they import, by full name, as JSON, compressed, as base64.
    type: str
    required: true
  calls:
    description: What to do for each role, as JSON.
    type: str
    required: true
  name:
    description: The name of these sources. They are compiled once for it.
    type: str
    required: true
notes:
  - Run it as root.
"""

EXAMPLES = r"""
- name: Verify the roles of a host
  rigwright.workstation.verify:
    roles: [ssh, samba]
"""

RETURN = r"""
by_role:
  description: The result of each role.
  returned: success
  type: dict
  sample: {ssh: {findings: []}}
"""

import base64
import json
import os
import typing as t
import zlib

from ansible_collections.rigwright.workstation.plugins.module_utils._core.another_python import start_again
from ansible_collections.rigwright.workstation.plugins.module_utils._core.forked import ALONE, Failed, run_all
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule

if t.TYPE_CHECKING:
    # Ansible copies to the host what this file names; roles import it there.
    from ansible.module_utils import urls  # noqa: F401
    from ansible.module_utils.common import arg_spec  # noqa: F401
    from ansible.module_utils.common.respawn import has_respawned  # noqa: F401
    from ansible.module_utils.common.warnings import warn  # noqa: F401

NAME = "ansible_collections.rigwright.workstation.plugins.modules.role"
ENTRY = "ansible_collections.rigwright.workstation.plugins.module_utils._system.role_run"


def main() -> None:
    module = HostModule(
        # Long, or with secrets: neither is logged.
        argument_spec={
            "sources": {"type": "str", "required": True, "no_log": True},
            "calls": {"type": "str", "required": True, "no_log": True},
            "name": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    if os.geteuid() != 0:
        module.fail_json(msg="a plan reads what root alone may: set `become: true`")
    sources = json.loads(zlib.decompress(base64.b64decode(module.params["sources"])))
    try:
        results = run_all(sources, ENTRY, json.loads(module.params["calls"]), module, module.params["name"])
    except Failed as error:
        module.fail_json(msg=f"The roles could not be planned or proved: {error}")
    if len(results) == 1:
        (result,) = results.values()
        if ALONE in result:
            start_again(module, NAME, result[ALONE])
    module.exit_json(changed=False, by_role=results)


if __name__ == "__main__":
    main()

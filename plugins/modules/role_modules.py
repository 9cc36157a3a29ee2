#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: role_modules
short_description: Run internal modules of several roles in one module run (internal)
description:
  - Called by M(rigwright.workstation.plan) and M(rigwright.workstation.verify) with O(ignore:roles). Changes nothing.
  - Each module runs in a process of its own, one after the other. Python, and what they share, is loaded once.
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
    description: The sources of the modules and of what they import, by full name, as JSON, compressed, as base64.
    type: str
    required: true
  calls:
    description: The arguments of each module, as JSON.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Verify the roles of a host
  rigwright.workstation.verify:
    roles: [ssh, samba]
"""

RETURN = r"""
by_module:
  description: The result of each module.
  returned: always
  type: dict
  sample: {ssh_verify: {findings: []}}
"""

import base64
import json
import typing as t
import zlib

from ansible_collections.rigwright.workstation.plugins.module_utils._core.forked import Failed, run_all
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule

if t.TYPE_CHECKING:
    # Ansible copies to the host what this file names; modules of roles import it there.
    from ansible.module_utils import urls  # noqa: F401
    from ansible.module_utils.common import arg_spec  # noqa: F401
    from ansible.module_utils.common.warnings import warn  # noqa: F401


def main() -> None:
    module = HostModule(
        # Long, or with secrets: neither is logged.
        argument_spec={
            "sources": {"type": "str", "required": True, "no_log": True},
            "calls": {"type": "str", "required": True, "no_log": True},
        },
        supports_check_mode=True,
    )
    sources = json.loads(zlib.decompress(base64.b64decode(module.params["sources"])))
    try:
        results = run_all(sources, json.loads(module.params["calls"]))
    except Failed as error:
        module.fail_json(msg=f"The modules of the roles could not be run: {error}")
    module.exit_json(changed=False, by_module=results)


if __name__ == "__main__":
    main()

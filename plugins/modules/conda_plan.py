#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: conda_plan
short_description: Plan conda environments (internal to the role conda)
description:
  - Internal to the role P(rigwright.workstation.conda#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.plan). Changes nothing.
  - Compares the environments with the request file by file. What has to be solved is due, and is not solved here.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Plan the environments
  rigwright.workstation.plan:
  register: __conda_plan
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._conda.compare import plan
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.plan import CondaError
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.run import explain
from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.facts import cuda_conflict, host_cuda
from ansible_collections.rigwright.workstation.plugins.module_utils._system.configured import exit_plan


def main() -> None:
    module, request = role_module()
    if request["state"] == "absent":
        module.exit_json(changed=False)
    try:
        cuda = host_cuda(Tree())
        found, warnings = plan(request, cuda, module.run_command)
    except (CondaError, OSError) as error:
        module.fail_json(msg=explain(error, request["prefix"]))
    for warning in [*warnings, *filter(None, [cuda_conflict(Tree())])]:
        module.warn(warning)
    exit_plan(module, "conda", **found)


if __name__ == "__main__":
    main()

#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_plan
short_description: Plan the CUDA toolkits of a host (internal to the role cuda)
description:
  - Internal to the role P(rigwright.workstation.cuda#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.plan). Changes nothing.
  - Reads what is on the host (packages, driver, GPUs, free disk, alternatives). Which toolkit needs which driver, and where packages
    come from, is data of the collection (C(docs/gpu_data.md)).
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Plan the CUDA toolkits
  rigwright.workstation.plan:
  register: __cuda_plan
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_run import plan_host
from ansible_collections.rigwright.workstation.plugins.module_utils._system.configured import exit_plan

ROOT = "/"


def main() -> None:
    module, request = role_module()
    try:
        plan = plan_host(Tree(ROOT), module.run_command, request)
    except ValueError as error:
        module.fail_json(msg=f"{error}. Nothing was changed.")
    exit_plan(module, "cuda", **plan)


if __name__ == "__main__":
    main()

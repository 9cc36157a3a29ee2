#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cudnn_plan
short_description: Plan cuDNN for the CUDA toolkits of a host (internal to the role cudnn)
description:
  - Internal to the role P(rigwright.workstation.cudnn#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.plan). Changes nothing.
  - Reads which CUDA toolkits are on the host, and compares what the role has installed with the request.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Plan cuDNN
  rigwright.workstation.plan:
  register: __cudnn_plan
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cudnn_run import Unplannable, plan_host
from ansible_collections.rigwright.workstation.plugins.module_utils._system.configured import exit_plan

ROOT = "/"


def main() -> None:
    module, request = role_module()
    try:
        plan = plan_host(Tree(ROOT), module.run_command, request)
    except Unplannable as error:
        module.fail_json(msg=f"{error}.")
    exit_plan(module, "cudnn", **plan)


if __name__ == "__main__":
    main()

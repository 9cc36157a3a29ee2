#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cudnn_verify
short_description: Verify cuDNN by programs that use it (internal to the role cudnn)
description:
  - Internal to the role P(rigwright.workstation.cudnn#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.verify). Changes nothing.
  - Compiles a program that compares the versions of headers and library, and one that computes on the GPU, where there is one.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Verify cuDNN
  rigwright.workstation.verify:
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import client_runner, role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cudnn_run import Unplannable, plan_host
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cudnn_verify import findings

ROOT = "/"
from ansible_collections.rigwright.workstation.plugins.module_utils._system.drop_ins import exit_verified


def main() -> None:
    module, request = role_module()
    try:
        plan = plan_host(Tree(ROOT), module.run_command, request)
    except Unplannable as error:
        module.fail_json(msg=f"{error}.")
    exit_verified(module, "cudnn", findings(client_runner(module), request, plan))


if __name__ == "__main__":
    main()

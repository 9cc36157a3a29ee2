#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_driver_plan
short_description: Plan the NVIDIA driver of a host (internal to the role nvidia_driver)
description:
  - Internal to the role P(rigwright.workstation.nvidia_driver#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.plan). Changes nothing, except that it refreshes apt's lists for an upgrade outside of check mode.
  - Reads GPUs, kernels, packages and what is loaded (M(rigwright.workstation.gpu_host_info)), chooses source, branch, module flavour and
    scope if the user names none, and simulates the change with C(apt-get --simulate).
  - Which driver serves which GPU is data of the collection (C(docs/gpu_data.md)).
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Plan the driver
  rigwright.workstation.plan:
    refuse: false
  register: __nvidia_driver_plan
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.dpkg import command_runner
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import Stuck
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_run import plan_host
from ansible_collections.rigwright.workstation.plugins.module_utils._system.configured import exit_plan

ROOT = "/"


def main() -> None:
    module, request = role_module()
    try:
        plan = plan_host(Tree(ROOT), command_runner(module.run_command), request, module.check_mode)
    except Stuck as error:
        module.fail_json(msg=f"{error}.")
    exit_plan(module, "nvidia_driver", **plan)


if __name__ == "__main__":
    main()

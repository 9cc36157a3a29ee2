#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_driver_verify
short_description: Verify the NVIDIA driver (internal to the role nvidia_driver)
description:
  - Internal to the role P(rigwright.workstation.nvidia_driver#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.verify). Changes nothing.
  - Compares packages, holds and what is loaded with the plan, and runs C(nvidia-smi) as an unprivileged user.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Verify the driver
  rigwright.workstation.verify:
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import client_runner, role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.dpkg import command_runner
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_findings import nvidia_smi
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import Stuck
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_run import plan_host

ROOT = "/"
# As an unprivileged user: root could create device nodes that a user cannot.
NVIDIA_SMI = ["runuser", "--user", "nobody", "--", "nvidia-smi", "-L"]
from ansible_collections.rigwright.workstation.plugins.module_utils._system.drop_ins import exit_verified


def main() -> None:
    module, request = role_module()
    clients = client_runner(module)

    try:
        plan = plan_host(Tree(ROOT), command_runner(module.run_command), request, module.check_mode)
    except Stuck as error:
        module.fail_json(msg=f"{error}.")
    outcome = clients(NVIDIA_SMI) if plan["gpus"] > 0 else None
    exit_verified(module, "nvidia_driver", [*plan["proofs"], nvidia_smi(outcome, plan["reboot"])])


if __name__ == "__main__":
    main()

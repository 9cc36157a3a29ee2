#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_container_toolkit_verify
short_description: Verify that containers get GPUs (internal to the role nvidia_container_toolkit)
description:
  - Internal to the role P(rigwright.workstation.nvidia_container_toolkit#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.verify). Changes nothing.
  - Runs containers that request one GPU, all GPUs, and none, from an image of the host's own programs, which is removed again.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Verify the toolkit
  rigwright.workstation.verify:
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import client_runner, role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.gpu_toolkit_run import run
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.gpu_toolkit_verify import findings
from ansible_collections.rigwright.workstation.plugins.module_utils._system.drop_ins import exit_verified


def main() -> None:
    module, request = role_module()
    exit_verified(module, "nvidia_container_toolkit", findings(client_runner(module), run(request, module.run_command)))


if __name__ == "__main__":
    main()

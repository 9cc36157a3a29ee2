#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_container_toolkit_plan
short_description: Plan how containers get the GPUs of a host (internal to the role nvidia_container_toolkit)
description:
  - Internal to the role P(rigwright.workstation.nvidia_container_toolkit#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.plan). Changes nothing.
  - Reads the host (packages, apt's sources, the driver, the running docker, the CDI spec).
  - To find out whether the CDI spec is current, the module runs C(nvidia-ctk cdi generate) and compares the result with the spec. So it
    notices another driver, other GPUs and MIG.
  - Where packages have to be installed, the module reads the versions in the repository, and refuses an unknown one before anything
    changes. The signature of that index is not checked, and nothing else depends on it.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Plan the toolkit
  rigwright.workstation.plan:
  register: __nvidia_container_toolkit_plan
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.gpu_toolkit_run import run
from ansible_collections.rigwright.workstation.plugins.module_utils._system.configured import exit_plan


def main() -> None:
    module, request = role_module()
    exit_plan(module, "nvidia_container_toolkit", **run(request, module.run_command))


if __name__ == "__main__":
    main()

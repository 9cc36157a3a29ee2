#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_usage_plan
short_description: Plan the sampler of GPU use (internal to the role gpu_usage)
description:
  - Internal to the role P(rigwright.workstation.gpu_usage#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.plan). Changes nothing.
  - Checks the request, and returns what the host lacks.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Plan the sampler of GPU use
  rigwright.workstation.plan:
  register: __gpu_usage_plan
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.plan import plan
from ansible_collections.rigwright.workstation.plugins.module_utils._system.configured import exit_plan

# The Python of modules, which python_environment makes.
ENVIRONMENT = "/opt/rigwright/python"


def main() -> None:
    module, request = role_module()
    exit_plan(module, "gpu_usage", **plan(request, ENVIRONMENT))


if __name__ == "__main__":
    main()

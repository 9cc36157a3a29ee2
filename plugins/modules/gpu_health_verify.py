#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_health_verify
short_description: Verify the installed check of GPUs by its report (internal to the role gpu_health)
description:
  - Internal to the role P(rigwright.workstation.gpu_health#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.verify). Changes nothing.
  - Reads the report and the textfile as nobody, and returns the findings of the last check.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Verify the check of GPUs
  rigwright.workstation.verify:
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import client_runner, role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.verify import findings
from ansible_collections.rigwright.workstation.plugins.module_utils._system.drop_ins import exit_verified


def main() -> None:
    module, request = role_module()
    exit_verified(module, "gpu_health", findings(client_runner(module), request))


if __name__ == "__main__":
    main()

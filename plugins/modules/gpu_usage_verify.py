#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_usage_verify
short_description: Verify the sampler of GPU use (internal to the role gpu_usage)
description:
  - Internal to the role P(rigwright.workstation.gpu_usage#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.verify). Changes nothing.
  - Reads the snapshot with C(gpu-who) and the metrics as nobody, and returns findings on them and on the units.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Verify the sampler of GPU use
  rigwright.workstation.verify:
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts
from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import client_runner, role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.plan import DOCKER_GROUP
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.verify import findings
from ansible_collections.rigwright.workstation.plugins.module_utils._system.drop_ins import exit_verified


def main() -> None:
    module, request = role_module()
    containers = request["containers"] and accounts.group(DOCKER_GROUP) is not None
    exit_verified(module, "gpu_usage", findings(client_runner(module), request, containers))


if __name__ == "__main__":
    main()

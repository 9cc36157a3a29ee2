#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_sharing_plan
short_description: Plan the sharing of the GPUs of a host (internal to the role gpu_sharing)
description:
  - Internal to the role P(rigwright.workstation.gpu_sharing#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.plan). Changes nothing.
  - Runs M(rigwright.workstation.gpu_mode), M(rigwright.workstation.gpu_mig) and M(rigwright.workstation.gpu_mps) in check mode, all in
    one run. A host that is as declared needs no other run.
  - A request that one of them would refuse fails this module, before any of them writes.
  - Needs nvidia-ml-py, in the Python that runs the module or in C(/opt/rigwright/python). Before the role has installed it, the cards are
    unknown.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Gather differences from the declared sharing
  rigwright.workstation.plan:
  register: __gpu_sharing_plan
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import respawn_where_possible
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing.run import Unplannable, plan_host
from ansible_collections.rigwright.workstation.plugins.module_utils._system.configured import exit_plan


def main() -> None:
    module, request = role_module()
    respawn_where_possible()
    try:
        plan = plan_host(module, request)
    except Unplannable as error:
        module.fail_json(msg=str(error), **error.result)
    exit_plan(module, "gpu_sharing", **plan)


if __name__ == "__main__":
    main()

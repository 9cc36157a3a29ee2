#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_sharing_verify
short_description: Verify that the GPUs of a host are shared as declared (internal to the role gpu_sharing)
description:
  - Internal to the role P(rigwright.workstation.gpu_sharing#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.verify). Changes nothing.
  - Asks the driver and the daemons of MPS for modes, instances and limits, and compares them, and what boots restore, with the request.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Verify the sharing of the GPUs
  rigwright.workstation.verify:
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import respawn_where_possible
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing import verify
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing.run import Unplannable, plan_host
from ansible_collections.rigwright.workstation.plugins.module_utils._system.drop_ins import exit_verified


def main() -> None:
    module, request = role_module()
    respawn_where_possible()
    try:
        found = verify.findings(plan_host(module, request), request["state"], module.check_mode)
    except Unplannable as error:
        found = verify.unreadable(str(error), error.result.get("next_step", ""))
    exit_verified(module, "gpu_sharing", found)


if __name__ == "__main__":
    main()

#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: frp_client_plan
short_description: Plan a frp client (internal to the role frp_client)
description:
  - Internal to the role P(rigwright.workstation.frp_client#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.plan). Changes nothing.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Plan a frp client (in the role frp_client)
  rigwright.workstation.plan:
  register: __frp_client_plan
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._frp.plan import plan_client
from ansible_collections.rigwright.workstation.plugins.module_utils._system.configured import exit_plan


def main() -> None:
    module, request = role_module()
    exit_plan(module, "frp_client", **plan_client(request))


if __name__ == "__main__":
    main()

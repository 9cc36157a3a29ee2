#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: samba_plan
short_description: Plan Samba (internal to the role samba)
description:
  - Internal to the role P(rigwright.workstation.samba#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.plan). Changes nothing.
  - Reads the host (packages, users, disks, Samba's modules and its database), and asks C(testparm) about the configuration to come.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Plan Samba
  rigwright.workstation.plan:
  register: __samba_plan
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.plan import Planner
from ansible_collections.rigwright.workstation.plugins.module_utils._system.configured import exit_plan


def main() -> None:
    module, request = role_module()
    exit_plan(module, "samba", **Planner(module, request).run())


if __name__ == "__main__":
    main()

#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: firewall_verify
short_description: Verify the table inet rigwright of nftables (internal to the role firewall)
description:
  - Internal to the role P(rigwright.workstation.firewall#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.verify). Changes nothing.
  - Asks C(nft) for the table in force and compares it with the files and the request.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Verify the firewall
  rigwright.workstation.verify:
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import findings
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.facts import plan_for

ROOT = "/"
from ansible_collections.rigwright.workstation.plugins.module_utils._system.drop_ins import exit_verified


def main() -> None:
    module, request = role_module()
    plan = plan_for(module, Tree(ROOT), request)
    found = [plan["in_force"], *plan["findings"], findings.request(plan["requirements"])]
    exit_verified(module, "firewall", found)


if __name__ == "__main__":
    main()

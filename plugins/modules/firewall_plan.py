#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: firewall_plan
short_description: Plan the table inet rigwright of nftables (internal to the role firewall)
description:
  - Internal to the role P(rigwright.workstation.firewall#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.plan). Changes nothing.
  - Creates the requested rules, tries them with every declaration of C(/etc/nftables.d/rigwright) in a separate network namespace, and
    compares them with the table of the kernel.
  - Returns a problem for a request that would lock out sshd or Ansible's own connection.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Plan the firewall
  rigwright.workstation.plan:
  register: __firewall_plan
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.facts import plan_for
from ansible_collections.rigwright.workstation.plugins.module_utils._system.configured import exit_plan

ROOT = "/"


def main() -> None:
    module, request = role_module()
    exit_plan(module, "firewall", **plan_for(module, Tree(ROOT), request))


if __name__ == "__main__":
    main()

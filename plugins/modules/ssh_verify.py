#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_verify
short_description: Verify sshd by its client (internal to the role ssh)
description:
  - Internal to the role P(rigwright.workstation.ssh#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.verify). Changes nothing except for C(/run/sshd), as M(rigwright.workstation.ssh_plan) does.
  - Checks the configuration in force and the banner of each port, and asks sshd by C(ssh) which methods it offers.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Verify sshd
  rigwright.workstation.verify:
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import client_runner, role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.run import Planner
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.verify import findings
from ansible_collections.rigwright.workstation.plugins.module_utils._system.drop_ins import exit_verified


def main() -> None:
    module, request = role_module()
    plan = Planner(module, {**request, "proof": "all"}).run()
    exit_verified(module, "ssh", findings(client_runner(module), request, plan))


if __name__ == "__main__":
    main()

#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: samba_verify
short_description: Verify Samba by its clients (internal to the role samba)
description:
  - Internal to the role P(rigwright.workstation.samba#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.verify). Changes nothing.
  - Logs in as each user, and tries what has to be refused, by C(smbclient).
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Verify Samba
  rigwright.workstation.verify:
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import client_runner, role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.plan import Planner
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.verify import findings
from ansible_collections.rigwright.workstation.plugins.module_utils._system.drop_ins import exit_verified


def main() -> None:
    module, request = role_module()
    plan = Planner(module, request).run()
    exit_verified(module, "samba", findings(client_runner(module), request, plan))


if __name__ == "__main__":
    main()

#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: frp_client_verify
short_description: Verify a frp client as its users do (internal to the role frp_client)
description:
  - Internal to the role P(rigwright.workstation.frp_client#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.verify). Changes nothing.
  - Reads the state of each proxy from the interface of C(frpc).
  - Opens a connection to each visitor's port, as its user would. C(frpc) accepts it in any case and closes it again when the other
    client does not offer the service, has another secret, or its service does not answer. A connection on which the service
    speaks, or that stays open, has reached the other end.
  - Some services speak first (SSH). If a service has sent nothing for two seconds, the module tries HTTP, RDP and SMB on further
    connections.
  - If a check fails, the module searches the journal of the unit for the reason.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Verify a frp client (in the role frp_client)
  rigwright.workstation.verify:
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import client_runner, role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._frp.verify import client_findings
from ansible_collections.rigwright.workstation.plugins.module_utils._system.drop_ins import exit_verified


def main() -> None:
    module, request = role_module()
    exit_verified(module, "frp_client", client_findings(client_runner(module), request))


if __name__ == "__main__":
    main()

#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: frp_server_verify
short_description: Verify a frp server as its users do (internal to the role frp_server)
description:
  - Internal to the role P(rigwright.workstation.frp_server#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.verify). Changes nothing.
  - Opens a TLS connection as a client would, and asks the dashboard with the password and with a wrong one.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Verify a frp server (in the role frp_server)
  rigwright.workstation.verify:
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import client_runner, role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._frp.verify import server_findings
from ansible_collections.rigwright.workstation.plugins.module_utils._system.drop_ins import exit_verified


def main() -> None:
    module, request = role_module()
    exit_verified(module, "frp_server", server_findings(client_runner(module), request))


if __name__ == "__main__":
    main()

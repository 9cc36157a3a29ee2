#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: xrdp_verify
short_description: Verify a remote desktop as its clients meet it (internal to the role xrdp)
description:
  - Internal to the role P(rigwright.workstation.xrdp#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.verify). Changes nothing.
  - Probes the server, as a client before the login, for its protocols and its certificate.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Verify a remote desktop (in the role xrdp)
  rigwright.workstation.verify:
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import client_runner, role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._system.drop_ins import exit_verified
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.run import run, verified


def main() -> None:
    module, request = role_module()
    exit_verified(module, "xrdp", verified(client_runner(module), run(module, request, probe=True)))


if __name__ == "__main__":
    main()

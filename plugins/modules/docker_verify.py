#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: docker_verify
short_description: Verify docker by its clients (internal to the role docker)
description:
  - Internal to the role P(rigwright.workstation.docker#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.verify). Changes nothing.
  - Runs a container that publishes a port and is removed again, asks dockerd about its options, and tries to use it as a user without
    rights.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Verify docker
  rigwright.workstation.verify:
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import client_runner, role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.run import run
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.verify import findings
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.table import RULES
from ansible_collections.rigwright.workstation.plugins.module_utils._system.drop_ins import exit_verified


def main() -> None:
    module, request = role_module()
    plan = run(request, module.run_command, RULES)
    exit_verified(module, "docker", findings(client_runner(module), request, plan))


if __name__ == "__main__":
    main()

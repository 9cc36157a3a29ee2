#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: status_plan
short_description: Validate the displays of a host's state (internal to the role status)
description:
  - Internal to the role P(rigwright.workstation.status#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.plan). Changes nothing.
  - Returns what prevents the displays, such as a console that the host does not have, and the login that gets its console back.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Validate the displays
  rigwright.workstation.plan:
  register: __status_plan
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._status.checks import logins_due, problems
from ansible_collections.rigwright.workstation.plugins.module_utils._system.configured import exit_plan


def main() -> None:
    module, request = role_module()
    found = problems(request) if request["state"] == "present" else []
    exit_plan(module, "status", requirements=found, logins=logins_due(request, Tree()))


if __name__ == "__main__":
    main()

#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_plan
short_description: Plan the configuration of an ssh server without lockouts (internal to the role ssh)
description:
  - Internal to the role P(rigwright.workstation.ssh#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.plan).
  - Reads the users who can log in and the ports in use, and tries the requested configuration on a copy.
    Changes nothing except for C(/run/sshd), an empty directory that C(sshd -T) needs and that the service creates when it starts.
  - C(sshd -T) prints the effective configuration. Every setting must have exactly the requested values. This applies to a user of
    each kind that C(Match) blocks distinguish, and to each address in them.
  - Keys are checked by the rules of sshd. The file must pass C(StrictModes), and sshd must accept the type and length.
    Keys from C(AuthorizedKeysCommand) and certificates are unknown to it.
  - C(proof) of the context says what to verify. C(none) checks the planned configuration. C(open) is for the time after the wanted
    ports have been opened, which must answer before others are closed. C(all) checks the configuration in force and all ports.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Plan sshd
  rigwright.workstation.plan:
  register: __ssh_plan
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.run import Planner
from ansible_collections.rigwright.workstation.plugins.module_utils._system.configured import exit_plan


def main() -> None:
    module, request = role_module()
    exit_plan(module, "ssh", **Planner(module, request).run())


if __name__ == "__main__":
    main()

#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name (plugins/action/verify.py).

from __future__ import annotations

DOCUMENTATION = r"""
module: verify
short_description: Verify the calling role, or several, on the host by real clients, and record the findings
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Takes the variables of the calling role as M(rigwright.workstation.plan) does, and C(__<role>_verify_context) or else
    C(__<role>_context).
  - Starts M(rigwright.workstation.role) once on the host, which calls C(verify) of C(plugins/module_utils/_roles/<role>.py).
    It uses the services of the role as their clients do. Its findings are recorded as M(rigwright.workstation.finding) does.
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  roles:
    description:
      - Verifies these roles, in one module run, outside of any role. Those with the state C(absent) are left out.
      - A role that cannot be verified is a finding that fails, C(<role>.verification), and the others are verified.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Verify Samba (in the role samba)
  rigwright.workstation.verify:

- name: Verify roles (in a playbook)
  rigwright.workstation.verify:
    roles: [ssh, samba]
"""

RETURN = r"""
findings:
  description: The findings.
  returned: success
  type: list
  elements: dict
  sample: [{id: samba.logins, status: pass, evidence: "logged in: alice", remedy: ""}]
"""

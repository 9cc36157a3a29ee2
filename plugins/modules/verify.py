#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name (plugins/action/verify.py).

from __future__ import annotations

DOCUMENTATION = r"""
module: verify
short_description: Verify the calling role on the host by real clients, and record the findings
version_added: 0.2.0
author: The Rigwright engineers (@rigwright)
description:
  - Takes the variables of the calling role as M(rigwright.workstation.plan) does.
  - Starts C(<role>_verify) once on the host, which uses the services of the role as their clients do, and records its findings as
    M(rigwright.workstation.finding) does.
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  context:
    description: What the module needs besides the options of the role, such as names of units of the platform.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Verify Samba (in the role samba)
  rigwright.workstation.verify:
    context: "{{ __samba_context }}"
"""

RETURN = r"""
findings:
  description: The findings.
  returned: success
  type: list
  elements: dict
  sample: [{id: samba.logins, status: pass, evidence: "logged in: alice", remedy: ""}]
"""

#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The work is done by plugins/action/finding.py on the controller; here stands only the documentation.

from __future__ import annotations

DOCUMENTATION = r"""
module: finding
short_description: Record the result of a check of a host
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Records one or more findings about a host. A finding is the outcome of a check, the evidence, and the remedy.
  - A failed finding does not fail the task. The playbook C(rigwright.workstation.verify) fails at its end when one failed, and
    P(rigwright.workstation.report#callback) shows all of them.
  - In check mode, nothing passes that was not checked. When the role would change something, a V(pass) is recorded as V(skip), with what
    is expected. A registered result of the role, C(__<role>_...), says whether it would.
  - Works on the controller alone and starts no module on the target.
extends_documentation_fragment:
  - rigwright.workstation.attributes
  - rigwright.workstation.attributes.controller
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  id:
    description:
      - The name of the check, as C(<role>.<what>).
      - A finding that is recorded again in the same run replaces the earlier one.
    type: str
  status:
    description:
      - The outcome.
      - V(skip) is for a check that does not apply to this host; the evidence says why.
    type: str
    choices: [pass, warn, fail, skip]
  evidence:
    description: The result of the check, in a few words. It is shown and written to the report, so it must hold no secret.
    type: str
  remedy:
    description: What to do about it. It is required for V(warn) and V(fail) of O(status), and shown unless that is V(pass).
    type: str
  forget:
    description: Forget the findings that the host has so far. A fact cache keeps those of earlier runs.
    type: bool
    default: false
  findings:
    description:
      - Several findings at once, instead of the four options above.
      - Replaces C(loop), which is refused because only its last iteration would stay.
    type: list
    elements: dict
    suboptions:
      id:
        description: As O(id).
        type: str
        required: true
      status:
        description: As O(status).
        type: str
        choices: [pass, warn, fail, skip]
        required: true
      evidence:
        description: As O(evidence).
        type: str
        required: true
      remedy:
        description: As O(remedy).
        type: str
seealso:
  - plugin: rigwright.workstation.report
    plugin_type: callback
"""

EXAMPLES = r"""
- name: Record that a key login works
  rigwright.workstation.finding:
    id: ssh.key_login
    status: "{{ 'pass' if __ssh_login.rc == 0 else 'fail' }}"
    evidence: "ssh as owner: rc {{ __ssh_login.rc }}"
    remedy: "add a key to ssh_authorized_keys"

- name: Record that each proxy answers
  rigwright.workstation.finding:
    findings: "{{ __frp_client_findings }}"
"""

RETURN = r"""
findings:
  description: The findings that this task recorded.
  returned: success
  type: list
  elements: dict
  sample:
    - id: ssh.key_login
      status: pass
      evidence: "ssh as owner: rc 0"
      remedy: add a key to ssh_authorized_keys
ansible_facts:
  description: Facts of the host.
  returned: success
  type: dict
  contains:
    rigwright_findings:
      description: All findings about the host so far.
      type: list
      elements: dict
"""

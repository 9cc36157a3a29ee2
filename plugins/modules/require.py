#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The work is done by plugins/action/require.py on the controller; here stands only the documentation.

from __future__ import annotations

DOCUMENTATION = r"""
module: require
short_description: Refuse a request that cannot be met
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Fails when a requirement is not met, before anything changes, with one message that has a line for each that is not.
  - Unlike M(ansible.builtin.assert), it names the variable to set and the remedy, shows all problems at once, and never a value.
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
  that:
    description: The requirements. Types are taken strictly, so the string V("true") is no boolean.
    type: list
    elements: dict
    required: true
    suboptions:
      ok:
        description: Whether the requirement is met.
        type: bool
        required: true
      variable:
        description: The variable to set.
        type: str
        required: true
      problem:
        description: What is wrong with it, without its value, which may be secret.
        type: str
        required: true
      remedy:
        description: What to do.
        type: str
        required: true
seealso:
  - module: ansible.builtin.assert
"""

EXAMPLES = r"""
- name: Check the request
  rigwright.workstation.require:
    that:
      - ok: "{{ frp_server_token | length >= 32 }}"
        variable: frp_server_token
        problem: "is missing or shorter than 32 characters"
        remedy: "make one with `openssl rand -hex 32` and keep it in a vault"
"""

RETURN = r"""
msg:
  description: A line for each requirement that is not met.
  returned: failure
  type: str
  sample: |-
    The request is refused:
    frp_server_token: is missing or shorter than 32 characters; make one with `openssl rand -hex 32` and keep it in a vault.
"""

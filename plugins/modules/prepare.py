#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name (plugins/action/prepare.py).

from __future__ import annotations

DOCUMENTATION = r"""
module: prepare
short_description: Refuse misspelled variables and unsupported hosts, and gather the facts that roles need
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Each role begins with it. The first time for a host in a run it starts M(rigwright.workstation.host_facts), later nothing.
  - Refuses variables that are misspelled ones of a role each time, because each play and each role may set variables of its own.
  - Refuses what C(__common_requirements) refuses, a variable of the role C(common), on which every role depends.
  - Removes the policy that starts no service, if a killed run left it behind.
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
notes:
  - Its result has to be registered as C(__common_prepared).
seealso:
  - plugin: rigwright.workstation.unknown_variables
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Prepare
  rigwright.workstation.prepare:
  register: __common_prepared

- name: Load the variables of the platform
  ansible.builtin.include_vars: "{{ item }}"
  loop: "{{ __common_prepared.platform_files }}"
"""

RETURN = r"""
ansible_facts:
  description: The facts of M(rigwright.workstation.host_facts).
  returned: the first time for a host in a run
  type: dict
  sample: {rigwright: {uid: 0}}
role:
  description: The calling role, without the name of the collection. Empty outside roles.
  returned: always
  type: str
  sample: samba
platform_files:
  description: The files with variables of the host's platform that the calling role has, the least specific first.
  returned: success
  type: list
  elements: str
  sample: [/usr/share/ansible/collections/ansible_collections/rigwright/workstation/roles/samba/vars/Debian_12.yml]
"""

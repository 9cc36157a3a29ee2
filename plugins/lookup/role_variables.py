# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: role_variables
short_description: Which variables of a role are set
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Names the variables in the argument specs of a role that are set for the host.
options:
  _terms:
    description: Short names of roles of this collection, such as C(samba).
    required: true
"""

EXAMPLES = r"""
- name: Configure Samba if shares are declared
  ansible.builtin.include_role:
    name: rigwright.workstation.samba
  when: query('rigwright.workstation.role_variables', 'samba') | length > 0
"""

RETURN = r"""
_raw:
  description: The names.
  type: list
  elements: str
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible_collections.rigwright.workstation.plugins.plugin_utils._role_variables import declared

ROLES = Path(__file__).parents[2] / "roles"


class LookupModule(LookupBase):
    def run(self, terms: list[str], variables: Mapping[str, Any] | None = None, **kwargs: Any) -> list[str]:
        self.set_options(var_options=variables, direct=kwargs)
        return sorted(name for role in terms for name in declared(ROLES, role) if name in (variables or {}))

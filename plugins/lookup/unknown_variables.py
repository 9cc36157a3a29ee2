# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: unknown_variables
short_description: Refuse variables that look like one of a role and are none
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Compares the names of all variables of the host with the argument specs of the roles. A name that begins with the name of a role,
    with C(remote_desktop_) or with C(workstation_), and is in no argument spec, is most likely misspelled.
  - Only names are looked at, no values. Names that begin with two underscores are internal and are left out.
options:
  _terms:
    description: Takes none.
  unknown:
    description: What to do with such a variable.
    type: str
    choices:
      refuse: Return a requirement that is not met.
      warn: Show a warning and return nothing.
      ignore: Return nothing.
    default: refuse
    vars:
      - name: workstation_unknown_variables
"""

EXAMPLES = r"""
- name: Refuse variables that no role has
  rigwright.workstation.require:
    that: "{{ query('rigwright.workstation.unknown_variables') }}"
"""

RETURN = r"""
_raw:
  description: Requirements for M(rigwright.workstation.require), one for each unknown variable.
  type: list
  elements: dict
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible.utils.display import Display
from ansible_collections.rigwright.workstation.plugins.module_utils._role_variables import requirements

ROLES = Path(__file__).parents[2] / "roles"


class LookupModule(LookupBase):
    def run(self, _terms: list[Any], variables: Mapping[str, Any] | None = None, **kwargs: Any) -> list[Any]:
        variables = variables or {}
        self.set_options(var_options=variables, direct=kwargs)
        choice = self.get_option("unknown")
        found = [] if choice == "ignore" else requirements(ROLES, variables)
        if choice == "refuse":
            return found
        for item in found:
            Display().warning(f"{item['variable']} {item['problem']}: {item['remedy']}.")
        return []

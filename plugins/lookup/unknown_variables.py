# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: unknown_variables
short_description: Refuse variables that are misspelled ones of a role
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Compares the names of variables with the argument specs of the roles. A name that begins with the name of a role,
    with C(remote_desktop_) or with C(workstation_), is in no argument spec and is nearly a name in one, is most likely misspelled.
  - Other names that begin so get a warning where they come from the inventory, from C(-e), or from the C(vars) of a play. They are
    not refused, since they may be yours, or those of another collection.
  - The lookup compares names and reads no values. It leaves out registered results, facts that a task has set, variables of other
    roles, and names that begin with two underscores.
options:
  _terms:
    description: Takes none.
  unknown:
    description: What to do with such a variable.
    type: str
    choices:
      refuse: Return a requirement that is not met where a variable is near, and show a warning where none is.
      warn: Show warnings and return nothing.
      ignore: Return nothing.
    default: refuse
    vars:
      - name: workstation_unknown_variables
"""

EXAMPLES = r"""
- name: Check variables for misspelled names
  rigwright.workstation.require:
    that: "{{ query('rigwright.workstation.unknown_variables') }}"
"""

RETURN = r"""
_raw:
  description: Requirements for M(rigwright.workstation.require), one for each misspelled variable.
  type: list
  elements: dict
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible.utils.display import Display
from ansible_collections.rigwright.workstation.plugins.plugin_utils._role_variables import requirements, unknown

try:
    from ansible._internal._datatag._tags import Origin
except ImportError:  # not a public interface: without it, names of plays get no warning
    Origin = None

ROLES = Path(__file__).parents[2] / "roles"
# The folders of a role in which variables are written.
ROLE_FOLDERS = ("defaults", "handlers", "tasks", "vars")


def set_by_tasks(variables: Mapping[str, Any]) -> set[str]:
    """Return the names of registered results and set facts. Only the variable manager knows them."""
    manager = getattr(variables.get("hostvars"), "_variable_manager", None)
    return set(getattr(manager, "_nonpersistent_fact_cache", {}).get(variables.get("inventory_hostname"), ()))


def of_the_host(variables: Mapping[str, Any]) -> set[str]:
    """Return the names from the inventory and from `-e`, without those of plays, roles and tasks."""
    hostvars, host = variables.get("hostvars"), variables.get("inventory_hostname")
    return set(hostvars[host]) if hostvars and host in hostvars else set()


def of_plays(names: Iterable[str]) -> set[str]:
    """Return the names that are written in playbooks: in a file that is in no folder of a role.

    Ansible tags a name with the file in which it is written.
    """
    if Origin is None:
        return set()
    files = {name: origin.path for name in names if (origin := Origin.get_tag(name)) and origin.path}
    return {name for name, path in files.items() if Path(path).parent.name not in ROLE_FOLDERS}


class LookupModule(LookupBase):
    def run(self, _terms: list[Any], variables: Mapping[str, Any] | None = None, **kwargs: Any) -> list[Any]:
        variables = variables or {}
        self.set_options(var_options=variables, direct=kwargs)
        choice = self.get_option("unknown")
        if choice == "ignore":
            return []
        names = set(variables) - set_by_tasks(variables)
        suspects = unknown(ROLES, names)
        if not suspects:
            return []
        found = requirements(suspects)
        theirs = (suspects.keys() & of_the_host(variables)) | of_plays(suspects)
        others = [name for name in sorted(theirs) if not suspects[name][1]]
        if others:
            Display().warning(
                f"No role of rigwright.workstation has {', '.join(others)}, though the names begin like those of its variables."
                " Set workstation_unknown_variables to ignore if they are yours."
            )
        if choice == "refuse":
            return found
        for item in found:
            Display().warning(f"{item['variable']} {item['problem']}: {item['remedy']}.")
        return []

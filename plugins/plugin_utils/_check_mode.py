# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an action knows in check mode of the tasks before it. Works on the controller."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple, cast

from ansible.module_utils.common.yaml import yaml_load
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject, Planned
from ansible_collections.rigwright.workstation.plugins.plugin_utils._role import ROLES, Variables


class Handed(NamedTuple):
    """What a role hands on: its kind, and the key of the registered result that has it."""

    kind: str
    register: str
    key: str


@cache
def handed_on() -> list[Handed]:
    """Return what all roles hands on, as their rows declare it (``hands_on`` in meta/rigwright.yml)."""
    rows = [yaml_load(file.read_text(encoding="utf-8")) for file in sorted(ROLES.glob("*/meta/rigwright.yml"))]
    declared = [each for row in rows for each in row.get("hands_on", {}).items()]
    return [Handed(kind, *source.split(".")) for kind, source in declared]


def planned(task_vars: Variables) -> Planned:
    """Return what earlier roles of the run would have made, by kind: names or rows of all of them, or whether one would have."""
    found: JsonObject = {}
    for kind, register, key in handed_on():
        value = task_vars.get(register, {}).get(key)
        if isinstance(value, Mapping):
            # Without a state, it is removed.
            value = [name for name, state in value.items() if state is not None]
        if isinstance(value, list):
            found[kind] = [*found.get(kind, []), *value]
        elif value:
            found[kind] = value
    return cast("Planned", found)


def changes(task_vars: Variables, role: str = "") -> bool:
    """Return whether a registered result says that its task would change something.

    :param role: short name of the role whose results (``__<role>_...``) count; empty: those of all roles.
    """
    prefix = f"__{role}_" if role else "__"
    plan = task_vars.get(f"__{role}_plan")
    packages = plan.get("packages") if isinstance(plan, Mapping) else None
    # The tasks of roles/common/tasks/packages.yml are those of any role.
    if isinstance(packages, Mapping) and packages.get("due"):
        return True
    return any(
        isinstance(value, Mapping) and value.get("changed") is True
        for name, value in task_vars.items()
        if name.startswith(prefix)
    )

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the variables of the roles, and find names that look like one and are none. Works on the controller."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

# Prefixes of variables that do not begin with the name of their role.
OTHER_PREFIXES = {"remote_desktop": "xrdp", "workstation": "common"}
# Variables of playbooks that begin with the name of a role.
OF_PLAYBOOKS = ("backup_now_hosts", "backup_now_jobs")
# How alike what follows the prefix has to be: `ssh_pasword` and `ssh_passwords`, and not `docker_compose_version` and `docker_version`.
ALIKE = 0.8


@cache
def declared(roles: Path, role: str) -> frozenset[str]:
    """Return the variables in the argument specs of a role."""
    file = roles / role / "meta/argument_specs.yml"
    if not file.is_file():
        return frozenset()
    specs = yaml_load(file.read_text(encoding="utf-8"))["argument_specs"]
    return frozenset(name for spec in specs.values() for name in spec.get("options", {}))


@cache
def _roles_by_prefix(roles: Path) -> dict[str, str]:
    """Return the role of each prefix of variables, the longest prefix first."""
    owners = {**OTHER_PREFIXES, **{path.name: path.name for path in roles.iterdir()}}
    return {f"{prefix}_": owners[prefix] for prefix in sorted(owners, key=len, reverse=True)}


def _owners(roles: Path, name: str) -> list[str]:
    """Return the roles whose prefix *name* has, that with the longest first."""
    return [role for prefix, role in _roles_by_prefix(roles).items() if name.startswith(prefix)]


def _nearest(roles: Path, owners: Iterable[str], name: str) -> str:
    """Return the variable that *name* is most likely meant to be, or ""."""
    candidates = {*OF_PLAYBOOKS, *(variable for role in owners for variable in declared(roles, role))}
    for prefix in sorted({*owners, *OTHER_PREFIXES}, key=len, reverse=True):
        if name.startswith(f"{prefix}_"):
            rest = {
                candidate[len(prefix) + 1 :]: candidate
                for candidate in sorted(candidates)
                if candidate.startswith(f"{prefix}_")
            }
            for found in difflib.get_close_matches(name[len(prefix) + 1 :], rest, n=1, cutoff=ALIKE):
                return rest[found]
    return ""


def unknown(roles: Path, names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return `{name: (role, nearest variable or "")}` of those names that begin like a variable of a role, and are none."""
    found = {}
    for name in sorted(names):
        owners = _owners(roles, name)
        if owners and not any(name in (*OF_PLAYBOOKS, *declared(roles, role)) for role in owners):
            found[name] = (owners[0], _nearest(roles, owners, name))
    return found


def requirements(names: Mapping[str, tuple[str, str]]) -> list[dict[str, object]]:
    """Return a requirement that is not met for each of the unknown names that is most likely misspelled."""
    return [
        {
            "ok": False,
            "variable": name,
            "problem": f"is no variable of the role {role}",
            "remedy": f"write {nearest}, or set workstation_unknown_variables to warn or ignore",
        }
        for name, (role, nearest) in names.items()
        if nearest
    ]

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the variables of a role, also where no task of it runs. Works on the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.parsing.dataloader import DataLoader
from ansible.utils.vars import load_extra_vars

# The variables of a task, by names and with values that users choose.
Variables = dict[str, Any]

ROLES = Path(__file__).parents[2] / "roles"
# The dependency of each role.
SHARED = ROLES / "common"
PLATFORMS = (
    ("os_family",),
    ("distribution",),
    ("distribution", "distribution_major_version"),
    ("distribution", "distribution_version"),
)


def platform_files(role: Path, facts: Variables) -> list[Path]:
    """Return the files with variables of a host's platform, the least specific first."""
    names = dict.fromkeys("_".join(str(facts.get(key, "")) for key in keys) for keys in PLATFORMS)
    return [file for name in names if (file := role / "vars" / f"{name}.yml").is_file()]


def variables_in(role: Path, loader: DataLoader, variables: Variables) -> Variables:
    """Return variables as a task of *role* has them, in the order of precedence, from those of a task outside of it."""

    def load(file: Path) -> Variables:
        # Without a copy: nothing changes it.
        content: Variables = loader.load_from_file(str(file), unsafe=True, trusted_as_template=True) or {}
        return content

    shared = sorted((SHARED / "vars" / "main").glob("*.yml"))
    files = [*shared, role / "vars" / "main.yml", *platform_files(role, variables["ansible_facts"])]
    merged = load(role / "defaults" / "main.yml") | dict(variables)
    for file in files:
        if file.is_file():
            merged |= load(file)
    place = {"role_path": str(role), "ansible_search_path": [str(role)]}
    return merged | load_extra_vars(loader) | place

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Derive the transaction from a planned driver. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import installed_for
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_model import Plan
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_packages import preferences
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import DKMS, Change
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_state import DriverState
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.gpus import of_host
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.kernels import (
    headers_along,
    is_kernel_metapackage,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.package_facts import origins_now
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import (
    Facts,
    is_driver,
    is_driver_package,
    is_on_branch,
    is_own,
)


def change_of(facts: Facts, plan: Plan, upgrade: bool = False) -> Change | None:
    """Return the one transaction that a plan comes to, None if there is nothing to do."""
    if plan.refused:
        return None
    packages = facts["packages"]
    driver = [name for name in packages if is_driver_package(name) and name not in plan.remove]
    # All of the driver that stays changes, too: no part is left on the previous branch.
    along = [
        name
        for name in driver
        if upgrade or not is_on_branch(name, packages[name]["version"], plan.branch, origins_now(facts, name))
    ]
    kernels = {name for name in packages if is_kernel_metapackage(name)} if upgrade else set()
    if plan.build == DKMS:
        # The new kernel is useless without its headers, even if those of the old one were installed by their own name.
        kernels |= set(map(headers_along, kernels))
    install = list(dict.fromkeys([*plan.pinning, *plan.headers, *plan.install, *sorted(along), *sorted(kernels)]))
    if not install and not plan.remove:
        return None
    return Change(
        branch=plan.branch,
        build=plan.build,
        loads=bool(of_host(facts["gpus"])),
        install=install,
        remove=list(plan.remove),
        recommends=plan.scope == "desktop",
        preferences=preferences(plan.source, plan.branch) + _way_down(facts, plan),
    )


def _way_down(facts: Facts, plan: Plan) -> str:
    """Return the pin that lets apt replace a newer driver by the archive's, for the transaction alone: by itself apt only upgrades.

    NVIDIA's repository has several branches, and the lasting pin on one of them has the same effect.
    """
    if not plan.downgrade or plan.source != data.ARCHIVE:
        return ""
    return f"\nPackage: src:*nvidia*:any\nPin: release o={facts['system']['distribution']}\nPin-Priority: 1000\n"


def has_lists(facts: Facts, plan: Plan) -> bool:
    """Return whether apt knows packages of the planned source, so that it can simulate the change."""
    return bool(plan.version) and any(
        plan.source in row["origins"] for rows in facts["available"].values() for row in rows
    )


def leaving(state: DriverState) -> list[str]:
    """Return the packages that go with the role: those that it installed and, of their dependencies, those that nothing else needs."""
    installed = [name for name in state.record.installed if name in state.packages]
    roots = [name for name in installed if is_own(name)]
    return installed_for(roots, state.packages, state.automatic.intersection(installed))


def transaction_lines(state: DriverState, change: Change | None) -> dict[str, str]:
    """Return the packages before and after, as a diff shows them."""
    packages, simulation = state.facts["packages"], state.simulation
    versions: dict[str, str] = {}
    removed: list[str] = []
    if change is not None and (simulation is None or simulation.error):
        versions, removed = dict.fromkeys(change.install, "(as the source has it)"), change.remove
    elif change is not None and simulation is not None:
        versions, removed = simulation.install, simulation.remove
    names = sorted({*versions, *removed})
    before = [f"{name} {packages[name]['version']}" for name in names if name in packages]
    after = [f"{name} {versions[name]}" for name in names if name in versions]
    for name in to_complete(state, change):
        before.append(f"{name}: dpkg has not finished it")
        after.append(f"{name}: whole")
    return {"before": "".join(f"{line}\n" for line in before), "after": "".join(f"{line}\n" for line in after)}


def to_complete(state: DriverState, change: Change | None) -> list[str]:
    """Return the packages that dpkg has to finish first: those of the driver always, others if apt would finish them in the same call."""
    return [name for name in state.unfinished if change is not None or is_driver(name)]


def touched(state: DriverState, change: Change) -> dict[str, str]:
    """Return the packages that a change installs or removes, and the new versions as far as apt could be asked."""
    if state.simulation is None or state.simulation.error:
        return dict.fromkeys([*change.install, *change.remove], "")
    return {**dict.fromkeys(state.simulation.remove, ""), **state.simulation.install}


def new_kernels(names: t.Mapping[str, str]) -> dict[str, str]:
    """Return the releases of the kernels that come, and the versions of their packages."""
    found = {re.fullmatch(r"linux-image-(?:unsigned-)?(\d.*)", name): version for name, version in names.items()}
    return {match.group(1): version for match, version in found.items() if match}

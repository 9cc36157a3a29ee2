# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The transaction that a planned driver comes to."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import brought_by
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_model import Plan
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_packages import preferences
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import DKMS, Change
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_state import DriverState
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.kernels import is_kernel_metapackage
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.package_facts import origins_now
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import (
    Facts,
    is_driver,
    is_driver_package,
    is_on_branch,
    is_own,
)


def change_of(facts: Facts, plan: Plan, upgrade: bool = False) -> Change | None:
    """The one transaction that a plan comes to, or None when there is nothing to do."""
    if plan.refused:
        return None
    packages = facts["packages"]
    driver = [name for name in packages if is_driver_package(name) and name not in plan.remove]
    # All that stays moves along: no part of the driver is left on the branch that was.
    along = [
        name
        for name in driver
        if upgrade or not is_on_branch(name, packages[name]["version"], plan.branch, origins_now(facts, name))
    ]
    kernels = {name for name in packages if is_kernel_metapackage(name)} if upgrade else set()
    if plan.build == DKMS:
        # The new kernel is of no use without its headers, even where those of the old one came by their own name.
        kernels |= {name.replace("-image-", "-headers-") for name in kernels}
    install = list(dict.fromkeys([*plan.pinning, *plan.headers, *plan.install, *sorted(along), *sorted(kernels)]))
    if not install and not plan.remove:
        return None
    return Change(
        branch=plan.branch,
        build=plan.build,
        loads=bool(facts["gpus"]),
        install=install,
        remove=list(plan.remove),
        recommends=plan.scope == "desktop",
        preferences=preferences(plan.source, plan.branch) + _way_down(facts, plan),
    )


def _way_down(facts: Facts, plan: Plan) -> str:
    """What lets apt take the archive's driver in place of a newer one, for the transaction alone: of itself it goes only upwards.

    NVIDIA's repository has branches side by side, and the lasting pin on one of them already says as much.
    """
    if not plan.downgrade or plan.source != data.ARCHIVE:
        return ""
    return f"\nPackage: src:*nvidia*:any\nPin: release o={facts['system']['distribution']}\nPin-Priority: 1000\n"


def has_lists(facts: Facts, plan: Plan) -> bool:
    """Whether apt knows packages of the planned source, so that it can be asked what it would do."""
    return bool(plan.version) and any(
        plan.source in row["origins"] for rows in facts["available"].values() for row in rows
    )


def leaving(state: DriverState) -> list[str]:
    """What goes with the role: the packages that it brought, and of what came with them only what nothing else needs by now."""
    brought = [name for name in state.record.brought if name in state.packages]
    roots = [name for name in brought if is_own(name)]
    return brought_by(roots, state.packages, state.automatic.intersection(brought))


def transaction_lines(state: DriverState, change: Change | None) -> dict[str, str]:
    """The packages before and after, as a diff shows them."""
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
    """What dpkg has to finish first: of the driver always, of others where apt would come to it in the same call."""
    return [name for name in state.unfinished if change is not None or is_driver(name)]


def touched(state: DriverState, change: Change) -> dict[str, str]:
    """The packages that a change installs or removes, and the versions that come, as far as apt could be asked."""
    if state.simulation is None or state.simulation.error:
        return dict.fromkeys([*change.install, *change.remove], "")
    return {**dict.fromkeys(state.simulation.remove, ""), **state.simulation.install}


def new_kernels(names: t.Mapping[str, str]) -> dict[str, str]:
    """The releases of the kernels that come, and the versions of their packages."""
    found = {re.fullmatch(r"linux-image-(?:unsigned-)?(\d.*)", name): version for name, version in names.items()}
    return {match.group(1): version for match, version in found.items() if match}

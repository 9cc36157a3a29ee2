# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the host for the plan of its driver, and ask apt what it would do. Changes nothing but apt's lists."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._apt import components as archive
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import (
    EXTENDED_STATES,
    STATUS,
    parse_automatic,
    parse_status,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.apt_transaction import simulate
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_change import (
    BOOT_ID,
    UPDATE_INITRAMFS,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_files import (
    ARCHIVE_SOURCE,
    PERSISTENCE,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_model import Request
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_plan import plan_driver
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import Change, Record, Run
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_state import (
    DriverRequest,
    DriverState,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_transaction import (
    change_of,
    has_lists,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.facts import gather
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.package_facts import read_unfinished

PERSISTENCE_UNITS = [f"{where}/{PERSISTENCE}" for where in ("/usr/lib/systemd/system", "/lib/systemd/system")]

# Keys of a request to the module nvidia_driver_plan that are fields of ``Request``.
REQUEST = (
    *("source", "branch", "modules", "scope", "gpus", "toolkits", "lock", "interrupt", "ignore_build_failures"),
    *("free_bytes", "host_name"),
)


def read_state(tree: Tree, run: Run, params: DriverRequest, refresh: bool) -> tuple[DriverState, Change | None]:
    """Return what the host has, and the transaction that its plan comes to.

    :param refresh: fetch apt's lists first: apt knows the newest release only from fresh lists.
    :raises Stuck: the record is damaged.
    """
    if refresh:
        run(["apt-get", "update", "--quiet"])
    facts = gather(tree, lambda names: run(["apt-cache", "policy", *names])[1])
    record = Record.load(tree)
    request = {key: value for key, value in params.items() if key in REQUEST} | {"own_holds": record.held}
    plan = plan_driver(facts, request)
    change = change_of(facts, plan, params["upgrade"]) if params["state"] == "present" else None
    simulation = None
    if change and has_lists(facts, plan):
        simulation = simulate(run, tree, change)
        if not simulation.error and not simulation.install and not simulation.remove:
            change = None
    state = DriverState(
        facts=facts,
        plan=plan,
        record=record,
        request=Request.from_dict(request),
        boot=tree.text(BOOT_ID).strip(),
        simulation=simulation,
        packages=parse_status(tree.text(STATUS)),
        automatic=parse_automatic(tree.text(EXTENDED_STATES)),
        unfinished=read_unfinished(tree),
        persistence_unit=next(filter(None, map(tree.text, PERSISTENCE_UNITS)), ""),
    )
    return state, change


def components_source(run: Run, state: DriverState) -> str | None:
    """Return a source of the archive's components that hold the driver, where apt lacks one of them."""
    if not state.plan.components:
        return None
    _rc, out, _err = run(archive.COMMAND)
    targets = archive.parse_targets(out)
    return archive.component_source(
        targets, state.facts["system"]["distribution"], state.plan.components, ARCHIVE_SOURCE
    )


def initramfs_kernel(tree: Tree, state: DriverState) -> str:
    """Return the kernel that boots next, if it does so from an initramfs."""
    release = str(state.kernel.get("release", ""))
    has_initramfs = tree.exists(UPDATE_INITRAMFS) and tree.exists(f"/boot/initrd.img-{release}")
    return release if has_initramfs else ""

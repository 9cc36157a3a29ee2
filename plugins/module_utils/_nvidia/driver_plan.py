# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the driver of a host. Pure: facts and a request in, a plan out.

A plan that is refused changes nothing: its lists of packages are empty.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_checks import (
    check_cards,
    check_host,
    check_kernels,
    check_toolkits,
    check_version,
    check_words,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_choice import choose
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_model import Draft, Plan, Request
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_packages import (
    list_packages,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.kernels import (
    is_kernel_metapackage,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import Facts, is_driver_package


def plan_driver(host: Facts, request: t.Mapping[str, object]) -> Plan:
    """Plan the driver of a host.

    :param host: what gpu_host_info returns.
    :param request: the fields of ``Request``.
    :raises ValueError: a field is unknown.
    """
    draft = Draft(host, Request.from_dict(request))
    if check_words(draft) and check_cards(draft) and choose(draft):
        list_packages(draft)
        check_version(draft)
        check_toolkits(draft)
        check_kernels(draft)
        check_host(draft)
        _plan_holds(draft)
        _plan_boot(draft)
    if draft.plan.refused:
        lists = dataclasses.replace(draft.plan, pinning=[], install=[], remove=[], hold=[], headers=[], reboot=[])
        draft.plan = dataclasses.replace(lists, preferences="", changes=False, downgrade=False)
    return draft.plan


def _plan_holds(draft: Draft) -> None:
    """Plan the packages that are held as one unit. After the change, the same function includes the dependencies."""
    if not draft.request.lock:
        return
    kept = {name for name in draft.host["packages"] if is_driver_package(name) or is_kernel_metapackage(name)}
    draft.plan.hold = sorted(kept.union(draft.plan.install).difference(draft.plan.remove))


def _plan_boot(draft: Draft) -> None:
    """Plan the signature of the module, and give the reasons for a reboot."""
    plan, driver, host = draft.plan, draft.host["driver"], draft.host
    boot = host["secure_boot"]
    if boot["state"] != "enabled":
        plan.secure_boot = "off"
    elif plan.build == "prebuilt":
        plan.secure_boot = "signed"
    else:
        plan.secure_boot = "enrolled" if boot["enrolled"] else ("pending" if boot["pending"] else "enroll")
    following = host["next_kernel"]["release"]
    running = next((kernel["release"] for kernel in host["kernels"] if kernel["running"]), following)
    reasons = [
        (bool(driver["loaded"]) and plan.changes, f"driver {driver['loaded']} is loaded and will be replaced"),
        (
            driver["matches"] is False and not plan.changes,
            f"driver {driver['loaded']} is loaded, the libraries are of {driver['library']}",
        ),
        (driver["nouveau"], "nouveau is loaded"),
        (following != running and plan.changes, f"the kernel {following} boots next, {running} runs"),
        (
            plan.secure_boot in ("pending", "enroll"),
            "the key that signs the module is confirmed at the console, while booting",
        ),
    ]
    plan.reboot = [reason for needed, reason in reasons if needed]

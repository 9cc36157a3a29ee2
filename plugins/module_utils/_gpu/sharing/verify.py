# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make findings of a plan for the GPUs: what differs from the declaration, and what waits. Pure."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing.request import Plan

DECLARED, COMPLETE = "gpu_sharing.declared", "gpu_sharing.complete"
UNREAD = "the GPUs were not read"
REMEDY = "run the role again, with --check --diff to see what differs"


def findings(plan: Plan, state: str, check_mode: bool) -> list[Finding]:
    """Return the findings on the declaration, on changes that wait, and on the choice for each card."""
    return [_declared(plan, state, check_mode), _complete(plan), *plan["findings"]]


def unreadable(error: str, next_step: str) -> list[Finding]:
    """Return the findings where no plan can be made."""
    return [finding(DECLARED, "fail", error, next_step or REMEDY), finding(COMPLETE, "skip", UNREAD)]


def _declared(plan: Plan, state: str, check_mode: bool) -> Finding:
    refused = plan["requirements"]
    if refused:
        texts = [f"{row['variable']} {row['problem']}" for row in refused]
        return finding(DECLARED, "fail", "; ".join(texts), "; ".join(row["remedy"] for row in refused))
    if state == "present" and not plan["known"]:
        # In check mode the run would install it first.
        return finding(
            DECLARED, "skip" if check_mode else "fail", "nvidia-ml-py is not installed", "run the role again"
        )
    parts = {
        "modes": plan["modes"]["changed"],
        "MIG": any(row["changed"] for row in plan["mig"]),
        "MPS": plan["mps"]["changed"],
    }
    differing = [name for name, changed in parts.items() if changed]
    if differing:
        return finding(DECLARED, "fail", f"differs from the declaration: {', '.join(differing)}", REMEDY)
    return finding(DECLARED, "pass", "modes, MIG and MPS are as declared, now and for each boot")


def _complete(plan: Plan) -> Finding:
    reset = [] if plan["needs"] == "none" else [f"a GPU needs a {plan['needs'].replace('_', ' ')}"]
    waits = [*reset, *plan["pending"]]
    return finding(
        COMPLETE,
        "warn" if waits else "pass" if plan["known"] else "skip",
        "; ".join(waits) or ("no change waits for a reset or for programs to end" if plan["known"] else UNREAD),
        "reset or reboot, or let the programs end",
    )

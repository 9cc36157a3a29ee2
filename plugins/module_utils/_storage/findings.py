# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Findings about disks, mounts and quotas. Pure: facts in, findings out."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.disks import format_size
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.model import Facts, Plan
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.units import mount_unit

AGAIN = "run the role again"
# Shares of a file system that are used.
NEARLY_FULL, FULL = 0.90, 0.98


def of_mounts(plan: Plan, facts: Facts) -> t.Iterator[Finding]:
    """Report whether each disk is mounted by its id, and nothing can be written where it is not."""
    refused = [f"{row['variable']} {row['problem']}" for row in plan.requirements]
    if refused:
        remedy = "; ".join(row["remedy"] for row in plan.requirements)
        yield finding("storage.disks", "fail", "; ".join(refused), remedy)
        return
    undone = [step for work in plan.works for step in work.todo] + [
        f"take back {given.get('mount')}" for given in plan.gone.values()
    ]
    if plan.fstab != facts.fstab:
        undone.append("write /etc/fstab")
    # The disk came up after the boot had given up on it, or somebody has unmounted it.
    idle = [work for work in plan.works if work.todo == [f"mount {work.entry.mount}"] and work.line in facts.fstab]
    evidence = [f"{work.entry.mount} is not mounted, though {work.disk.path} ({work.key}) is there" for work in idle]
    remedy = AGAIN
    if idle and len(idle) == len(undone):
        undone, units = evidence, " ".join(f"'{mount_unit(work.entry.mount)}'" for work in idle)
        remedy = f"`systemctl start {units}`, or {AGAIN}; `journalctl -b -u {units}` shows why"
    mounted = [f"{work.entry.mount}: {work.entry.fs} UUID={work.given['uuid']} on {work.key}" for work in plan.works]
    yield finding(
        "storage.disks",
        "fail" if undone else "pass" if mounted else "skip",
        "not done: " + ", ".join(undone) if undone else "; ".join(mounted) or "none is asked for",
        remedy,
    )
    open_points = [mount for mount, point in sorted(facts.points.items()) if point.immutable is False]
    unknown = [mount for mount, point in sorted(facts.points.items()) if point.immutable is None]
    yield finding(
        "storage.mount_points",
        "fail" if open_points else "warn" if unknown else "pass" if facts.points else "skip",
        f"what is written to {', '.join(open_points or unknown)} while its disk is missing fills the system's disk"
        if open_points or unknown
        else "nothing can be written to a mount point whose disk is missing"
        if facts.points
        else "no mount point is asked for",
        AGAIN
        if open_points
        else "their file system knows no `chattr +i`: look whether the disk is there before writing",
    )


def of_space(used: t.Mapping[str, tuple[int, int]]) -> Finding:
    """Report how full the file systems are."""
    shares = {mount: taken / (whole or 1) for mount, (taken, whole) in used.items()}
    worst = max(shares.values(), default=0.0)
    evidence = ", ".join(
        f"{mount} {share:.0%} of {format_size(used[mount][1])}" for mount, share in sorted(shares.items())
    )
    status = "fail" if worst >= FULL else "warn" if worst >= NEARLY_FULL else "pass" if shares else "skip"
    return finding(
        "storage.space",
        status,
        evidence or "no disk is mounted",
        "take away what nobody needs: `du -xh --max-depth=2 PATH | sort -h`",
    )


def of_directories(undone: t.Sequence[str], quotas: t.Sequence[str], *, requested: bool) -> t.Iterator[Finding]:
    yield finding(
        "storage.directories",
        "fail" if undone else "pass" if requested else "skip",
        f"not as declared: {', '.join(undone)}" if undone else "as declared" if requested else "none is asked for",
        AGAIN,
    )
    if quotas:
        yield finding(
            "storage.quotas",
            "fail" if undone else "pass",
            "in force: " + ", ".join(quotas) if not undone else "some are not in force",
            AGAIN,
        )


def of_smart(key: str, path: str, rc: int, output: str) -> Finding:
    """Report the output of ``smartctl --health --json``. Virtual disks and many USB bridges have no SMART."""
    identifier, name = f"storage.smart_{key}", f"{path} ({key})"
    try:
        answer = json.loads(output)
    except ValueError:
        return finding(identifier, "skip", f"{name}: smartctl gave no answer ({rc})", "install smartmontools")
    passed = (answer.get("smart_status") or {}).get("passed")
    if passed is None:
        return finding(
            identifier,
            "skip",
            f"{name} reports nothing by SMART",
            "look whether a USB bridge or a RAID controller hides it",
        )
    remedy = f"copy the data away and replace the disk; `smartctl -x {path}` shows more"
    return finding(
        identifier, "pass" if passed else "fail", f"{name}: SMART health {'passed' if passed else 'FAILED'}", remedy
    )

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""Getting files back: first the plan, which snapshot, how much, and what it would meet; then, if that is wanted, the restore."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils import _backup_keep as keeping
from ansible_collections.rigwright.workstation.plugins.module_utils._backup_config import (
    FILES,
    Config,
    ConfigError,
    Job,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._backup_drill import restore
from ansible_collections.rigwright.workstation.plugins.module_utils._backup_sample import pattern
from ansible_collections.rigwright.workstation.plugins.module_utils._mounts import is_within
from ansible_collections.rigwright.workstation.plugins.module_utils._restic import judge
from ansible_collections.rigwright.workstation.plugins.module_utils._restic_run import Restic

LATEST = "latest"
_SHOWN = 20


@dataclasses.dataclass
class Plan:
    """What a restore would do."""

    snapshot: str
    time: str
    host: str
    target: str
    paths: list[str]
    files: int = 0
    bytes: int = 0
    unknown: list[str] = dataclasses.field(default_factory=list)
    conflicts: int = 0
    conflicting: list[str] = dataclasses.field(default_factory=list)


def parse_when(text: str) -> float | None:
    """The moment that is meant, the end of a day that is given without a time; None when it is no time, such as the id of a snapshot."""
    for form, length_s in (("%Y-%m-%d", 86399), ("%Y-%m-%d %H:%M", 59), ("%Y-%m-%d %H:%M:%S", 0)):
        try:
            return time.mktime(time.strptime(text.replace("T", " "), form)) + length_s
        except ValueError:
            continue
    return None


def choose(found: t.Sequence[keeping.Snapshot], when: str) -> keeping.Snapshot:
    """The last snapshot at or before a moment, or the one with an id.

    :raises ConfigError: there is none.
    """
    if not found:
        raise ConfigError("the job has no snapshot: look at `rigwright-backup snapshots JOB`")
    if when == LATEST:
        return found[-1]
    moment = parse_when(when)
    if moment is not None:
        before = [row for row in found if row.time <= moment]
        if before:
            return before[-1]
        first = time.strftime("%Y-%m-%d %H:%M", time.localtime(found[0].time))
        raise ConfigError(f"no snapshot is as old as {when}: the first is of {first}")
    named = [row for row in found if re.fullmatch(r"[0-9a-f]{4,64}", when) and row.id.startswith(when)]
    if len(named) != 1:
        raise ConfigError(
            f"{when!r} is neither `latest`, a time such as 2026-11-22 or 2026-11-22 18:00, nor the id of one snapshot of the job"
        )
    return named[0]


class Lister:
    """Counts what a restore would bring, and what is in its way, while the list of a snapshot goes by."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.met: set[str] = set()

    def take(self, line: str) -> None:
        if '"node"' not in line:
            return
        node = json.loads(line)
        path = node.get("path", "")
        over = next((wanted for wanted in self.plan.paths if is_within(path, wanted)), None)
        if over is None:
            return
        self.met.add(over)
        if node.get("type") == "dir":
            return
        self.plan.files += 1
        self.plan.bytes += node.get("size", 0)
        place = os.path.join(self.plan.target, path.lstrip("/"))
        if os.path.lexists(place):
            self.plan.conflicts += 1
            if len(self.plan.conflicting) < _SHOWN:
                self.plan.conflicting.append(place)


def make_plan(job: Job, restic: Restic, when: str, paths: t.Sequence[str], target: str) -> Plan:
    """
    :raises ConfigError: nothing fits what is asked for.
    """
    outcome, found = keeping.snapshots(restic, "--host", job.host, "--tag", f"{job.tag},{FILES}")
    if not outcome.ok:
        raise ConfigError(f"{outcome.words}: {outcome.remedy}")
    chosen = choose(found, when)
    named = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(chosen.time))
    plan = Plan(chosen.id, named, chosen.host, target, [os.path.normpath(path) for path in paths] or ["/"])
    lister = Lister(plan)
    done = restic.run("ls", "--json", "--no-lock", chosen.id, on_line=lister.take)
    outcome = judge(done)
    if not outcome.ok:
        raise ConfigError(f"{outcome.words}: {outcome.remedy}")
    plan.unknown = [path for path in plan.paths if path not in lister.met]
    return plan


def objection(plan: Plan, overwrite: bool) -> str:
    """Why it is not done, empty when it is."""
    if plan.unknown:
        return f"the snapshot has nothing at {', '.join(plan.unknown)}: look at `rigwright-backup restic REPOSITORY ls {plan.snapshot[:8]}`"
    if plan.conflicts and not overwrite:
        shown = ", ".join(plan.conflicting[:5])
        return f"{plan.conflicts} files are there already, such as {shown}: restore to another place, or allow to overwrite them"
    return ""


def carry_out(
    config: Config, plan: Plan, restic: Restic, overwrite: bool, on_line: t.Callable[[str], None] | None = None
) -> str:
    """Restore, and return what is wrong with how it went."""
    patterns = [pattern(path) for path in plan.paths if path != "/"]
    outcome = judge(restore(restic, config, plan.snapshot, plan.target, patterns, on_line, overwrite))
    return "" if outcome.ok else f"{outcome.words}: {outcome.remedy}"

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Maintenance of a repository: forget old snapshots, free room, and read all data in a number of checks."""

from __future__ import annotations

import json
import re
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import state as states
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Config, Job
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import Done, Restic
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic_outcome import (
    OK,
    Outcome,
    judge,
    nanoseconds,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.results import Result, State
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.tags import PART
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject

_BY_CALENDAR = ("hourly", "daily", "weekly", "monthly", "yearly")
KEEP = ("last", *_BY_CALENDAR, "within")
_LIST_S = 600
# The lengths of years and months differ: the shortest of them, so that a gap is seen too early rather than too late.
_DAYS = {"y": 365, "m": 28, "d": 1, "h": 1 / 24}


class Snapshot(t.NamedTuple):
    """The attributes of a snapshot that are used here."""

    id: str
    time: float
    host: str
    tags: tuple[str, ...]
    paths: tuple[str, ...]


def parse_snapshots(text: str) -> list[Snapshot]:
    """Parse the output of `restic snapshots --json`; oldest first.

    :raises ValueError: it is no list of snapshots.
    """
    try:
        found = [
            Snapshot(
                row["id"],
                nanoseconds(row["time"]) / 1e9,
                row.get("hostname", ""),
                tuple(row.get("tags") or ()),
                tuple(row.get("paths") or ()),
            )
            for row in json.loads(text or "null") or []
        ]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"restic lists snapshots in another format: {error!r}") from error
    return sorted(found, key=lambda row: row.time)


def snapshots(restic: Restic, *filters: str) -> tuple[Outcome, list[Snapshot]]:
    """Return the outcome and the snapshots, oldest first."""
    done = restic.run("snapshots", "--json", "--no-lock", *filters, timeout_s=_LIST_S)
    outcome = judge(done)
    return outcome, parse_snapshots(done.out) if outcome.ok else []


def exclusively(config: Config, restic: Restic, *arguments: str) -> Done:
    """Run what needs the repository for itself, after removing stale locks; a live lock is waited for."""
    restic.run("unlock", timeout_s=_LIST_S)
    return restic.run(*arguments, retry_lock_s=config.retry_lock_s)


def keep(retention: JsonObject) -> list[str]:
    """Return the options of restic that keep snapshots."""
    return [word for name in KEEP if retention.get(name) for word in (f"--keep-{name}", str(retention[name]))]


def within_s(text: str) -> float:
    """Return the length of a time such as `2y5m7d3h`, in seconds."""
    return sum(int(count) * _DAYS[unit] for count, unit in re.findall(r"(\d+)([ymdh])", text)) * 24 * states.HOUR_S


def before_gap(retention: JsonObject, rows: t.Sequence[Snapshot]) -> list[Snapshot]:
    """Return the snapshots that would go only because the next one is more than `within` later.

    restic reckons `within` back from the newest snapshot: one that was made while the clock was years ahead, or after a long time in
    which the machine was off, would let all others go. Rules by the calendar count snapshots, so such a gap is nothing to them.

    :param rows: of one kind, oldest first.
    """
    if not retention.get("within") or any(retention.get(name) for name in _BY_CALENDAR):
        return []
    length = within_s(str(retention["within"]))
    gaps = [number for number in range(1, len(rows)) if rows[number].time - rows[number - 1].time > length]
    return list(rows[: gaps[-1]]) if gaps else []


def forget(
    config: Config,
    job: Job,
    restic: Restic,
    now: float,
    hosts: t.Sequence[str] = (),
    foreign: t.Callable[[list[Snapshot]], str] = lambda _rows: "",
) -> Result:
    """Forget old snapshots, each kind by itself.

    They are chosen by the host and the tags that the role sets and nobody changes, so that another path or tag makes no group of which
    nothing ever expires. With a snapshot from the future nothing goes, nor of a kind with a gap: what is "the last 30 days" would be
    reckoned from there.

    :param hosts: the options of restic that select the names of this machine.
    :param foreign: says whether snapshots are another machine's.
    """
    hosts = hosts or ("--host", job.host)
    outcome, found = snapshots(restic, *hosts, "--tag", job.tag)
    if not outcome.ok:
        return {"kind": outcome.kind, "words": outcome.message}
    if foreign(found):
        return {"kind": states.FOREIGN, "words": f"{foreign(found)}; none was let go"}
    ahead = [row for row in found if row.time > now + states.HOUR_S]
    if ahead:
        return {
            "kind": states.CLOCK,
            "words": f"snapshots from the future: {', '.join(row.id[:8] for row in ahead[:5])}; none was let go",
        }
    if not found:
        return {"kind": states.NOTHING, "words": "there is no snapshot of the job"}
    removed, gaps = 0, []
    # The parts in the repository, not those of the job: a dump may have been removed, or the job be another host's.
    for part in sorted({tag for row in found for tag in row.tags if tag.startswith(PART)}):
        older = before_gap(job.retention, [row for row in found if part in row.tags])
        if older:
            gaps.append(f"{len(older)} of {part} up to {older[-1].id[:8]} of {_day(older[-1].time)}")
            continue
        arguments = [
            "forget",
            "--json",
            *hosts,
            "--tag",
            f"{job.tag},{part}",
            # The names of this machine count together: else the last ones under a former name would stay forever.
            "--group-by",
            "",
            *keep(job.retention),
        ]
        done = exclusively(config, restic, *arguments)
        outcome = judge(done)
        if not outcome.ok:
            return {"kind": outcome.kind, "words": f"{part}: {outcome.message}", "removed": removed}
        try:
            removed += sum(len(group.get("remove") or []) for group in json.loads(done.out or "[]") or [])
        except ValueError:
            continue
    result: Result = {"kind": OK, "words": "", "removed": removed, "snapshots": len(found) - removed}
    if gaps:
        message = f"for longer than `within` of the retention there was no snapshot after {', '.join(gaps)}; none of these was let go"
        result.update({"kind": states.GAP, "words": message})
    return result


def _day(moment: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(moment))


def prune(config: Config, restic: Restic) -> Result:
    outcome = judge(exclusively(config, restic, "prune"))
    return {"kind": outcome.kind, "words": outcome.message}


def check(config: Config, restic: Restic, before: State) -> Result:
    """Check the repository and read one part of its data, the next part after each success."""
    parts = max(1, config.check_parts)
    part = (int(before.get("next_part") or 1) - 1) % parts + 1
    outcome = judge(exclusively(config, restic, "check", f"--read-data-subset={part}/{parts}"))
    result: Result = {"kind": outcome.kind, "words": outcome.message, "part": part, "parts": parts}
    return {**result, "next_part": part % parts + 1} if outcome.ok else result


def timed(work: t.Callable[[], Result]) -> Result:
    """Run some work; return its result with its times and an exit code."""
    started, clock = time.time(), time.monotonic()
    result = work()
    return {
        **result,
        "started": started,
        "duration_s": round(time.monotonic() - clock, 1),
        "exit_code": int(result["kind"] != OK),
    }

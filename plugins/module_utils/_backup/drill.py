# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The drill: restore files and dumps of the last backup, files into a scratch directory, and compare them with their records."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import sample as sampling
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import state as states
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import (
    Config,
    Job,
    Place,
    configured,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.excludes import literal
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.job import limits
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import Done, Restic
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic_outcome import (
    DAMAGED,
    OK,
    Outcome,
    judge,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.results import Drawn, DumpResult, Result


def restore(
    restic: Restic,
    config: Config,
    snapshot: str,
    target: str,
    patterns: t.Sequence[str],
    on_line: t.Callable[[str], None] | None = None,
    pass_fds: t.Sequence[int] = (),
) -> Done:
    """Restore what matches the patterns below a private directory, sparse files as such where restic can."""
    arguments = ["restore", snapshot, "--target", target, *limits(config)]
    arguments += ["--sparse"] if restic.has("sparse") else []
    if restic.has("overwrite"):
        arguments += ["--json", "--overwrite", "always"]
    for pattern in patterns:
        arguments += ["--include", pattern]
    return restic.run(*arguments, on_line=on_line, retry_lock_s=config.retry_lock_s, pass_fds=pass_fds)


def scratch_of(place: Place, job: str) -> str:
    """Return the directory that a drill restores to. It is not below /run: that is memory, and keeps no user attributes."""
    return os.path.join(place.cache, f"drill-{job}")


def clear(place: Place, job: str) -> None:
    """Remove what a drill has restored: it may contain anybody's secrets.

    :raises OSError: it does not go.
    """
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(scratch_of(place, job))


def drill(config: Config, place: Place, job: Job, restic: Restic) -> Result:
    # restic keeps files that are right: what a killed drill left would be compared instead of the repository's data.
    """Run the drill of a job."""
    clear(place, job.name)
    scratch = scratch_of(place, job.name)
    os.makedirs(scratch, mode=0o700)
    try:
        return compare(config, place, job, restic, scratch)
    finally:
        clear(place, job.name)


def compare(config: Config, place: Place, job: Job, restic: Restic, scratch: str) -> Result:
    """Restore and compare; return the result of the drill.

    :param scratch: an empty directory that nobody else can enter.
    """
    try:
        drawn: Drawn = states.read_list(states.list_of(place, "sample", job.name), strict=True) if job.paths else {}
        dumps: dict[str, DumpResult] = (
            states.read_list(states.list_of(place, "dumps", job.name), strict=True) if job.dumps else {}
        )
    except states.Damaged as error:
        return {"kind": states.NOTHING, "words": str(error)}
    last = states.read_state(place, states.RUN, job.name)
    # What was added since has had no run that could have made it. Without a list of what the job had then, it had all.
    changed = last.get("ended", configured(place)) < configured(place)
    lacking = ""
    if "files" not in drawn and (job.paths or not dumps):
        lacking = drawn.get("problem") or "there is no list of what to compare with: the job has not been backed up yet"
    elif job.paths and not drawn["files"]:
        lacking = "no file of the last backup could be compared: each is too large, or changed while it was backed up"
    undumped = {str(spec["name"]) for spec in job.dumps} - {*dumps}
    added = undumped - {*last.get("dumps_of_job", undumped)} if changed else set()
    if undumped - added and not lacking:
        lacking = f"there is no good dump of {', '.join(sorted(undumped - added))} to compare with"
    lost = [f"{path} is in backup_drill_paths and not in the backup" for path in drawn.get("missing", [])]
    lost += [f"{path} is in backup_drill_paths and a directory: name files" for path in drawn.get("directories", [])]
    outcomes = []
    for part in (
        drill_files(config, restic, drawn, scratch) if drawn.get("files") else None,
        drill_dumps(config, restic, dumps),
    ):
        if part:
            outcomes.append(part[0])
            lost += part[1]
    outcome = next((outcome for outcome in outcomes if not outcome.ok), Outcome(OK, ""))
    result: Result = {
        "kind": OK,
        "words": "",
        "files": len(drawn.get("files", {})),
        "dumps": len(dumps),
        "total": drawn.get("total"),
        "snapshot": drawn.get("snapshot", ""),
    }
    if lost:
        # The reason that restic gives comes first, if it is more precise.
        kind = outcome.kind if outcome.kind not in (OK, "failed", "partial") else states.LOST
        message = f"{len(lost)} differences: {'; '.join(lost[:5])}"
        return {
            **result,
            "kind": kind,
            "words": f"{outcome.message}; {message}" if kind != states.LOST else message,
            "lost": lost[:100],
        }
    if not outcome.ok:
        result.update({"kind": DAMAGED if outcome.kind == "failed" else outcome.kind, "words": outcome.message})
    elif lacking:
        result.update({"kind": states.NOTHING, "words": lacking})
    else:
        changing, new = ", ".join(drawn.get("changed", [])), ", ".join(sorted(added))
        notes = (
            f"not compared, since they changed during the backup: {changing}" if changing else "",
            f"not compared, since no run has made it yet: the dump {new}" if new else "",
        )
        result["words"] = "; ".join(filter(None, notes))
    return result


def drill_files(config: Config, restic: Restic, drawn: Drawn, scratch: str) -> tuple[Outcome, list[str]]:
    """Restore the files on the list; return the outcome and the losses."""
    wanted = drawn["files"]
    names = sorted({*wanted, *(other for row in wanted.values() for other in row.get("links", []))})
    done = restore(restic, config, drawn["snapshot"], scratch, [literal(name) for name in names])
    return judge(done), sampling.compare(wanted, scratch)


def drill_dumps(config: Config, restic: Restic, dumps: t.Mapping[str, DumpResult]) -> tuple[Outcome, list[str]]:
    """Read each dump whole, and compare it with the output of its command; return the outcome and the losses."""
    outcomes, lost = [], []
    for name, row in dumps.items():
        digest = hashlib.sha256()
        arguments = ["dump", *limits(config), row["snapshot"], row["path"]]
        outcome = judge(restic.run(*arguments, retry_lock_s=config.retry_lock_s, on_block=digest.update))
        outcomes.append(outcome)
        if not outcome.ok:
            lost.append(f"the dump {name} cannot be read")
        elif digest.hexdigest() != row["sha256"]:
            lost.append(f"the dump {name} has another content")
    return next((outcome for outcome in outcomes if not outcome.ok), Outcome(OK, "")), lost

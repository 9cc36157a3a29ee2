# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""The drill: files of the last backup are restored into a scratch directory and compared with the list that was made with it."""

from __future__ import annotations

import os
import shutil
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils import _backup_sample as sampling
from ansible_collections.rigwright.workstation.plugins.module_utils import _backup_state as states
from ansible_collections.rigwright.workstation.plugins.module_utils._backup_config import Config, Job, Place
from ansible_collections.rigwright.workstation.plugins.module_utils._backup_excludes import literal
from ansible_collections.rigwright.workstation.plugins.module_utils._backup_job import limits
from ansible_collections.rigwright.workstation.plugins.module_utils._restic import DAMAGED, OK, judge
from ansible_collections.rigwright.workstation.plugins.module_utils._restic_run import Done, Restic

Result = dict[str, t.Any]


def restore(
    restic: Restic,
    config: Config,
    snapshot: str,
    target: str,
    patterns: t.Sequence[str],
    on_line: t.Callable[[str], None] | None = None,
    overwrite: bool = True,
) -> Done:
    """Restore what fits the patterns below a directory, sparse files as such where restic can."""
    words = ["restore", snapshot, "--target", target, *limits(config)]
    words += ["--sparse"] if restic.has("sparse") else []
    if restic.has("overwrite"):
        words += ["--json", "--overwrite", "if-changed" if overwrite else "never"]
    for pattern in patterns:
        words += ["--include", pattern]
    return restic.run(*words, on_line=on_line, retry_lock_s=config.retry_lock_s)


def drill(config: Config, place: Place, job: Job, restic: Restic, scratch: str) -> Result:
    """
    :param scratch: an empty directory of nobody else's; what is in it goes in the end.
    """
    drawn = states.read_json(os.path.join(place.state, f"sample-{job.name}.json"))
    wanted: dict[str, sampling.Described] = drawn.get("files") or {}
    if not wanted:
        return {
            "kind": states.NOTHING,
            "words": "there is no list of files to compare with: the job has not been backed up yet",
        }
    names = sorted({*wanted, *(other for row in wanted.values() for other in row.get("links", []))})
    root = os.path.join(scratch, "restored")
    try:
        done = restore(restic, config, drawn["snapshot"], root, [literal(name) for name in names])
        outcome = judge(done)
        lost = sampling.compare(wanted, root)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    result: Result = {
        "kind": OK,
        "words": "",
        "files": len(wanted),
        "total": drawn.get("total"),
        "snapshot": drawn["snapshot"],
    }
    if lost:
        # restic's own word on why comes first, if it has one that says more.
        kind = outcome.kind if outcome.kind not in (OK, "failed", "partial") else states.LOST
        words = f"{len(lost)} differences: {'; '.join(lost[:5])}"
        return {
            **result,
            "kind": kind,
            "words": f"{outcome.words}; {words}" if kind != states.LOST else words,
            "lost": lost[:100],
        }
    if not outcome.ok:
        result.update(kind=DAMAGED if outcome.kind == "failed" else outcome.kind, words=outcome.words)
    return result

# SPDX-License-Identifier: GPL-3.0-or-later
"""Hand mounts, tables and messages of restic to the readers of the role backup."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import (
    address,
    caches,
    checks,
    coverage,
    excludes,
    restic_outcome,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import config as configuration
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import job as jobs
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.retention import parse_snapshots
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.unread import unread as unread_of
from ansible_collections.rigwright.workstation.plugins.module_utils._system import mounts

from tests.unit.support.backup import hosts


def _jobs(rows: list[dict[str, Any]]) -> list[configuration.Job]:
    return [
        configuration.Job(
            name=f"job{number}",
            repository="nas",
            host="ws1",
            paths=tuple(row["paths"]),
            excludes=(*excludes.patterns(row.get("sets", excludes.SETS)), *row.get("excludes", [])),
        )
        for number, row in enumerate(rows)
    ]


def left_out(mountinfo: str, jobs: list[dict[str, Any]]) -> list[str]:
    """Return the mounted storage that no job backs up, which refuses the role and fails each run."""
    return [mount.target for mount in coverage.left_out(mounts.parse_mountinfo(mountinfo), _jobs(jobs))]


def not_mounted(fstab: str, mountinfo: str, paths: list[str]) -> list[str]:
    """Return what a run misses of fstab."""
    (job,) = _jobs([{"paths": paths}])
    return coverage.not_mounted(job, mounts.parse_fstab(fstab), mounts.parse_mountinfo(mountinfo))


def targets(fstab: str, binds: bool = True) -> list[str]:
    """Return what fstab mounts at boot."""
    return mounts.parse_fstab(fstab, binds)


def unread(messages: list[dict[str, Any]], sources: list[str], mountinfo: str = "") -> dict[str, int]:
    """Return how many of restic's errors are a loss, and how many only say that something has changed meanwhile."""
    text = "\n".join(map(json.dumps, messages))
    (job,) = _jobs([{"paths": sources}])
    lost, gone = unread_of(text, job, mounts.parse_mountinfo(mountinfo))
    return {"lost": len(lost), "changed": len(gone)}


def judged(rc: int, err: str) -> str:
    """Return how a run of restic ended."""
    return restic_outcome.judge(restic_outcome.Done(rc, "", err)).kind


def is_excluded(path: str, patterns: list[str]) -> bool:
    """Return whether restic leaves a directory out, where the job has / as its path."""
    return excludes.excluded(path, patterns)


def times(snapshots: str) -> list[float]:
    """Return the times of snapshots, oldest first."""
    return [row.time for row in parse_snapshots(snapshots)]


def stored(files: list[str], tagged: list[str], paths: list[str]) -> list[str]:
    """Return which of the files a backup stores, of a tree in which some directories have a CACHEDIR.TAG.

    The options that the code gives to restic are followed as restic's documentation describes them.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name in [*files, *(f"{name}/CACHEDIR.TAG" for name in tagged)]:
            path = Path(folder + name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("Signature: 8a477f597d28d172789f06886806bc55\n" if name.endswith("TAG") else "x")
        job = configuration.Job("keep", "nas", "ws1", paths=[folder + path for path in paths])
        command = jobs.arguments(configuration.Config(), job)
        patterns = [command[number + 1] for number, word in enumerate(command) if word == "--exclude"]
        patterns = [*caches.patterns(job), *patterns]
        native = "--exclude-caches" in command
        kept = []
        for name in files:
            whole = folder + name
            root = max((path for path in job.paths if mounts.is_within(whole, path)), key=len, default="")
            tags = [os.path.dirname(root), *_between(root, whole)] if native and root else []
            hidden = any(os.path.exists(f"{above}/CACHEDIR.TAG") for above in tags)
            if root and not hidden and not excludes.excluded(whole, patterns, job.paths):
                kept.append(name)
        return kept


def _between(root: str, path: str) -> list[str]:
    found = []
    while path != root:
        path = os.path.dirname(path)
        found.append(path)
    return found


class Refused(Exception):
    """The request is refused."""


REFUSALS = (Refused,)


def refused(job: dict[str, Any]) -> None:
    """Refuse what a job may not have."""
    problems = list(checks.problems(hosts.request(jobs=[job]), checks.Host()))
    if problems:
        raise Refused("; ".join(row["problem"] for row in problems))


def place(url: str) -> str:
    """Return where a repository on this machine is."""
    found = address.parse(url)
    if found is None:
        raise Refused("an address that restic does not take")
    return found.path

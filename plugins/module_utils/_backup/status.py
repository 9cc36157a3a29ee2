# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of the backups of this machine, as findings: the results of the runs, and facts that only the host has."""

from __future__ import annotations

import os
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import config as configuration
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import coverage, identity, units
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import state as states
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Config, Place
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import probe
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic_outcome import OK
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import read_fstab

Call = t.Callable[..., "tuple[int, str]"]


def unit_of(verb: str, subject: str) -> str:
    return f"rigwright-backup-{verb}-{subject}.service"


def failure(config: Config, place: Place, unit: str) -> tuple[str, str]:
    """Return the title and the text of a message on a failed unit."""
    journal = f"`journalctl --unit {unit}` has the reason."
    for verb, subject in states.subjects(config):
        if unit_of(verb, subject) == unit:
            title = f"failed: {units.DESCRIPTIONS[verb].format(subject)}"
            state = states.read_state(place, verb, subject)
            kind = str(state.get("kind") or OK)
            # A unit that could not start has no new result.
            if kind == OK:
                return title, journal
            names = (subject, config.jobs[subject].repository) if verb in states.OF_JOBS else ("JOB", subject)
            return title, f"{states.words_of(state) or kind}\nTo do: {states.remedy(kind, *names)}\n{journal}"
    return f"failed: {unit}", journal


def findings(config: Config, place: Place, call: Call, with_probe: bool) -> list[Finding]:
    """Return all findings.

    :param call: runs a command, and gives its status and output.
    :param with_probe: whether the repositories are opened, too.
    """
    found = states.findings(config, states.read_states(config, place), time.time(), configuration.configured(place))
    found += [*timers(config, call), *strays(config, place), *unnamed(config, place), *former(config, place)]
    if with_probe:
        found += [probed(config, place, name) for name in config.repositories]
    return found


def timers(config: Config, call: Call) -> t.Iterator[Finding]:
    """Yield the timers that exist and do not run."""
    for verb, subject in states.subjects(config):
        timer = unit_of(verb, subject).replace(".service", ".timer")
        shown = call("systemctl", "show", "--property=ActiveState,LoadState", "--value", timer)[1].split()
        if "masked" in shown or ("loaded" in shown and "active" not in shown):
            yield finding(
                f"backup.timer.{verb}.{subject}", "fail", f"{timer} is {' '.join(shown)}", "run the role backup again"
            )


def strays(config: Config, place: Place) -> t.Iterator[Finding]:
    """Yield the jobs that have run and are no longer in backup_jobs: their snapshots stay forever."""
    try:
        names = sorted(os.listdir(place.state))
    except OSError:
        return
    for name in names:
        job = name[len("run-") : -len(".json")]
        if name.startswith("run-") and name.endswith(".json") and job not in config.jobs:
            yield finding(
                f"backup.gone.{job}",
                "warn",
                f"{job} is no longer in backup_jobs: its snapshots stay, and nothing removes them",
                f"when it may go: `rigwright-backup restic REPOSITORY forget --tag job:{job} --keep-monthly 12`;"
                f" then remove {place.state}/*-{job}.json",
            )


def unnamed(config: Config, place: Place) -> t.Iterator[Finding]:
    """Yield storage of fstab that only a set of patterns excludes, such as /mnt: no user has said that it can be lost."""
    places = coverage.by_sets_alone(config.jobs.values(), read_fstab(place.fstab, binds=False), config.local_paths())
    if places:
        yield finding(
            "backup.unnamed",
            "warn",
            f"in fstab, in no job, and left out by a set of patterns alone: {', '.join(places)}",
            "add it to the paths of a job, or name it in backup_excludes if it can be lost or has backups alone",
        )


def former(config: Config, place: Place) -> t.Iterator[Finding]:
    """Yield the jobs with snapshots under a former name of the host: nothing removes them until a user says whose they are."""
    due = {*states.subjects(config)}
    for job in config.jobs.values():
        if not job.former_host or identity.is_adopted(place, job) or (states.FORGET, job.name) not in due:
            continue
        count = states.read_state(place, states.RUN, job.name).get("former")
        if count:
            yield finding(
                f"backup.former.{job.name}",
                "warn",
                f"{count} snapshots as {job.former_host}, the name of earlier versions for each machine: they never expire",
                f"if they are of this machine: `rigwright-backup adopt {job.name}`; they then count with those as {job.host}",
            )


def probed(config: Config, place: Place, name: str) -> Finding:
    """Open a repository, and return the finding."""
    outcome, identity = probe(configuration.open_repository(config, place, name))
    evidence = (
        f"{name} is there and takes the password ({identity[:8]})" if outcome.ok else f"{name}: {outcome.message}"
    )
    return finding(f"backup.repository.{name}", "pass" if outcome.ok else "fail", evidence, outcome.remedy)

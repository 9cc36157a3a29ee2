# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""How the backups of this machine are, as findings: what the runs have left, and what nobody but the host itself can tell."""

from __future__ import annotations

import os
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import config as configuration
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import coverage, hooks
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import state as states
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Config, Place
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import probe
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import read_fstab

Row = dict[str, str]
Call = t.Callable[..., "tuple[int, str]"]


def unit_of(verb: str, subject: str) -> str:
    return f"rigwright-backup-{verb}-{subject}.service"


def findings(config: Config, place: Place, call: Call, with_probe: bool) -> list[Row]:
    """Return the findings of this host.

    :param call: runs a command, and gives its status and output.
    :param with_probe: whether the repositories are opened, too.
    """
    found = states.findings(config, states.read_states(config, place), time.time(), configured(place))
    found += [*timers(config, call), *strays(config, place), *unnamed(config, place)]
    if with_probe:
        found += [probed(config, place, name) for name in config.repositories]
    return found


def configured(place: Place) -> float:
    """Return when the configuration was last changed."""
    paths = (place.config, os.path.join(place.secrets, hooks.FILE))
    return max(os.stat(path).st_mtime for path in paths)


def timers(config: Config, call: Call) -> t.Iterator[Row]:
    """Return findings for timers that exist and do not run."""
    for verb, subject in states.subjects(config):
        timer = unit_of(verb, subject).replace(".service", ".timer")
        shown = call("systemctl", "show", "--property=ActiveState,LoadState", "--value", timer)[1].split()
        if "masked" in shown or ("loaded" in shown and "active" not in shown):
            yield {
                "id": f"backup.timer.{verb}.{subject}",
                "status": "fail",
                "evidence": f"{timer} is {' '.join(shown)}",
                "remedy": "run the role backup again",
            }


def strays(config: Config, place: Place) -> t.Iterator[Row]:
    """Return findings for jobs that ran and are no longer declared: their snapshots stay for ever."""
    try:
        names = sorted(os.listdir(place.state))
    except OSError:
        return
    for name in names:
        job = name[len("run-") : -len(".json")]
        if name.startswith("run-") and name.endswith(".json") and job not in config.jobs:
            yield {
                "id": f"backup.gone.{job}",
                "status": "warn",
                "evidence": f"{job} is no longer in backup_jobs: what it has backed up stays, and nothing lets it go",
                "remedy": f"when it may go: `rigwright-backup restic REPOSITORY forget --tag job:{job} --keep-monthly 12`;"
                f" then remove {place.state}/*-{job}.json",
            }


def unnamed(config: Config, place: Place) -> t.Iterator[Row]:
    """Storage of fstab that a set leaves out, such as what is below /mnt: nobody has said that it can be lost."""
    places = coverage.by_sets_alone(config.jobs.values(), read_fstab(place.fstab, binds=False), config.local_paths())
    if places:
        yield {
            "id": "backup.unnamed",
            "status": "warn",
            "evidence": f"in fstab, in no job, and left out by a set of patterns alone: {', '.join(places)}",
            "remedy": "add it to the paths of a job, or name it in backup_excludes if it can be lost or has backups alone",
        }


def probed(config: Config, place: Place, name: str) -> dict[str, str]:
    outcome, identity = probe(configuration.open_repository(config, place, name))
    evidence = f"{name} is there and takes the password ({identity[:8]})" if outcome.ok else f"{name}: {outcome.words}"
    return {
        "id": f"backup.repository.{name}",
        "status": "pass" if outcome.ok else "fail",
        "evidence": evidence,
        "remedy": outcome.remedy,
    }

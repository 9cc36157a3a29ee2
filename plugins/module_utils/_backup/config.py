# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration that the role backup writes for its programs, and the places of their files.

Secrets are separate files, which systemd hands to the units as credentials.
"""

from __future__ import annotations

import dataclasses
import json
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import hooks
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import (
    ConfigError,
    Repository,
    Restic,
    read_version,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.tags import JOB
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.value_types import CommandRow
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject


@dataclasses.dataclass(frozen=True)
class Place:
    """The places of the programs' files; tests use others."""

    config: str = "/etc/rigwright/backup.json"
    secrets: str = "/etc/rigwright/backup"
    state: str = "/var/lib/rigwright_backup"
    run: str = "/run/rigwright_backup"
    cache: str = "/var/cache/rigwright_backup"
    mountinfo: str = "/proc/self/mountinfo"
    fstab: str = "/etc/fstab"
    machine_id: str = "/etc/machine-id"


@dataclasses.dataclass(frozen=True)
class Target:
    """A repository, without its secrets."""

    name: str
    local_path: str = ""
    append_only: bool = False
    password_file: str = ""
    ca: bool = False
    ssh: bool = False
    options: t.Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Job:
    """A job: paths, repository and retention."""

    name: str
    repository: str
    host: str
    paths: t.Sequence[str] = ()
    excludes: t.Sequence[str] = ()
    exclude_caches: bool = True
    one_file_system: bool = True
    tags: t.Sequence[str] = ()
    retention: JsonObject = dataclasses.field(default_factory=dict)
    dumps: t.Sequence[CommandRow] = ()
    pre: t.Sequence[CommandRow] = ()
    post: t.Sequence[CommandRow] = ()
    post_failure: t.Sequence[CommandRow] = ()
    always: t.Sequence[CommandRow] = ()
    timeout_s: int = 0
    schedule: str | None = None
    max_age_h: int = 0
    former_host: str = ""  # under which earlier versions made the snapshots of this machine

    @property
    def tag(self) -> str:
        return JOB + self.name

    @property
    def hosts(self) -> list[str]:
        """Return the options of restic that find the snapshots under the present and the former name of the host."""
        return ["--host", self.host, *(["--host", self.former_host] if self.former_host else [])]


@dataclasses.dataclass(frozen=True)
class Config:
    """The whole configuration."""

    program: str = "/usr/bin/restic"
    user: str = "rigwright-backup"
    textfile_directory: str = ""
    manifest: str = ""
    notify_command: t.Sequence[str] = ()
    notify: bool = False
    retry_lock_s: int = 1800
    limit_upload_kib: int = 0
    limit_download_kib: int = 0
    check_parts: int = 8
    drill_paths: t.Sequence[str] = ()
    drill_files: int = 200
    max_age_h: t.Mapping[str, int] = dataclasses.field(default_factory=dict)
    schedules: t.Mapping[str, str] = dataclasses.field(default_factory=dict)  # by verb
    repositories: t.Mapping[str, Target] = dataclasses.field(default_factory=dict)
    jobs: t.Mapping[str, Job] = dataclasses.field(default_factory=dict)

    def job(self, name: str) -> Job:
        if name not in self.jobs:
            raise ConfigError(
                f"there is no job {name!r}: name one of {', '.join(self.jobs) or 'backup_jobs, which is empty'}"
            )
        return self.jobs[name]

    def target(self, name: str) -> Target:
        if name not in self.repositories:
            names = ", ".join(self.repositories) or "backup_repositories, which is empty"
            raise ConfigError(f"there is no repository {name!r}: name one of {names}")
        return self.repositories[name]

    def schedule(self, verb: str, subject: str) -> str:
        """Return the schedule; empty for what has no timer, such as a job that another host starts."""
        own = self.jobs[subject].schedule if verb == "run" else None
        return self.schedules.get(verb, "daily") if own is None else own

    @property
    def reports_failures(self) -> bool:
        """Return whether a failed unit starts another one, which reports it."""
        return bool(self.notify_command) or self.notify

    def local_paths(self) -> list[str]:
        """Return the paths of the repositories on this machine."""
        return [target.local_path for target in self.repositories.values() if target.local_path]

    def covered(self) -> list[str]:
        """Return the paths of all jobs."""
        return sorted({path for job in self.jobs.values() for path in job.paths})


def from_fields(kind: t.Any, values: t.Mapping[str, object]) -> t.Any:
    """Build a dataclass from JSON; keys that a newer role has added are ignored."""
    names = {field.name for field in dataclasses.fields(kind)}
    return kind(**{key: value for key, value in values.items() if key in names})


def parse(text: str, commands: str = "") -> Config:
    """Parse the configuration.

    :param commands: the commands of hooks and dumps, which root runs.
    :raises ValueError: one of the two is damaged.
    """
    raw = json.loads(text)
    raw = hooks.attach(raw, json.loads(commands)) if commands else raw
    return from_fields(
        Config,
        {
            **raw,
            "repositories": {row["name"]: from_fields(Target, row) for row in raw.get("repositories", [])},
            "jobs": {row["name"]: from_fields(Job, row) for row in raw.get("jobs", [])},
        },
    )


def read(place: Place) -> Config:
    """Read the configuration.

    :raises ConfigError: the role was not run, or was cut short.
    """
    # A unit's user has it from systemd, without the commands, which root alone may read and run.
    given = os.environ.get("CREDENTIALS_DIRECTORY") if os.geteuid() else None
    texts = []
    for path in [f"{given}/backup.json"] if given else [place.config, os.path.join(place.secrets, hooks.FILE)]:
        try:
            with open(path, encoding="utf-8") as file:
                texts.append(file.read())
        except FileNotFoundError:
            raise ConfigError(f"{path} is missing: run the role backup") from None
    try:
        return parse(*texts)
    except ValueError as error:
        raise ConfigError(f"the configuration is damaged, run the role backup: {error}") from None


def configured(place: Place) -> float:
    """Return when the configuration was last changed."""
    return max(os.stat(path).st_mtime for path in (place.config, os.path.join(place.secrets, hooks.FILE)))


def open_repository(config: Config, place: Place, name: str, version: t.Sequence[int] | None = None) -> Restic:
    """Return restic for a repository: in a unit as its user with a cache, for root without one.

    Root leaves nothing of its own in the cache of the units' user, and nothing in a repository on this machine, which is that user's.
    """
    target = config.target(name)
    # A unit's user has the secrets from systemd; root, a unit's steps with a plus among them, reads the files.
    root = os.geteuid() == 0
    repository = Repository(
        name=name,
        folder=place.secrets if root else os.environ.get("CREDENTIALS_DIRECTORY", place.secrets),
        password_file=target.password_file if root else "",
        ca=target.ca,
        ssh=target.ssh,
        options=tuple(target.options),
    )
    user = config.user if root and target.local_path else ""
    cache = "" if root else place.cache
    return Restic(config.program, version or read_version(config.program), repository, cache, user)

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan what the role backup has to do on a host.

Pure: `_backup.facts` reads the host. No secret comes here: `_backup.request` has separated them.
"""

from __future__ import annotations

import dataclasses
import glob
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import coverage, excludes, units
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import state as states
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.address import (
    SFTP,
    RepositoryRow,
    public_rows,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.backup_options import BackupJobs
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.checks import (
    problems,
    retention_of,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import (
    Config,
    Job,
    Target,
    from_fields,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.facts import Host, schedules_of
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.record import (
    RepositoryRecord,
    RepositorySettings,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.value_types import (
    WITH_COMMANDS,
    BackupRequest,
    commands_of,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import (
    Finding,
    Problem,
    finding,
    problem,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import (
    DirectoryRow,
    FileRow,
    JsonObject,
    UnitRow,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown
from ansible_collections.rigwright.workstation.plugins.module_utils._manifest.document import PATH as MANIFEST
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import is_within

CONFIG = "/etc/rigwright/backup.json"


@dataclasses.dataclass
class Plan:
    """The work of the role on a host."""

    requirements: list[Problem] = dataclasses.field(default_factory=list)
    findings: list[Finding] = dataclasses.field(default_factory=list)
    install: list[str] = dataclasses.field(default_factory=list)
    install_due: bool = False
    release_due: bool = False
    release_gone: bool = False
    user_due: bool = False
    repositories_due: list[str] = dataclasses.field(default_factory=list)
    reload_due: bool = False
    directories: list[DirectoryRow] = dataclasses.field(default_factory=list)
    files: list[FileRow] = dataclasses.field(default_factory=list)
    units: list[UnitRow] = dataclasses.field(default_factory=list)
    units_gone: list[UnitRow] = dataclasses.field(default_factory=list)


def plan_present(request: BackupRequest, host: Host) -> Plan:
    """Plan the backups of a host.

    :param request: the variables of the role, by their names without `backup_`.
    """
    plan = Plan()
    plan.requirements = [*release_problems(request), *problems(request, host)]
    plan.install = sorted({*packages(request)} - host.packages)
    plan.user_due = not host.user_exists
    plan.release_due = host.release_due and bool(request["version"])
    plan.release_gone = host.release_due and not request["version"]
    plan.install_due = bool(plan.install) or plan.user_due or host.release_due
    if plan.requirements:
        return plan
    config = make_config(request)
    plan.requirements = list(left_out(config, host))
    if plan.requirements:
        return plan
    schedules = {key: config.schedule(*key) for key in states.subjects(config)}
    secrets = {row["name"]: row["secrets"] for row in public_rows(request)}
    plan.directories = [{"path": path} for path in ("/etc/rigwright", "/etc/rigwright/backup")]
    plan.files = [
        {"path": units.PROGRAM, "mode": "0755", "program": "_bare_metal.backup_program"},
        {"path": CONFIG, "data": raw_config(config), "format": "json", "mode": "0600"},
    ]
    for (verb, subject), schedule in schedules.items():
        service, timer = (f"{units.FOLDER}/{units.name(verb, subject, kind)}" for kind in ("service", "timer"))
        text = units.service(config, verb, subject, secrets, request["hardening"], request["header"])
        plan.files.append({"path": service, "content": text})
        if not schedule:
            continue
        plan.files.append(
            {
                "path": timer,
                "content": units.timer(verb, subject, schedule, request["randomized_delay_s"], request["header"]),
            }
        )
        plan.units.append(
            {"name": units.name(verb, subject, "timer"), "state": "started", "enabled": True, "restart_on": [timer]}
        )
    if config.reports_failures:
        text = units.notifier(config, request["hardening"], request["header"])
        plan.files.append({"path": f"{units.FOLDER}/rigwright-backup-failed@.service", "content": text, "secret": True})
    wanted = {row["name"] for row in plan.units}
    plan.units_gone = [
        {"name": name, "state": "stopped", "enabled": False} for name in host.timers() if name not in wanted
    ]
    plan.repositories_due = [row["name"] for row in public_rows(request) if is_due(row, request["user"], host)]
    plan.reload_due = host.outdated
    plan.findings = list(findings(request, config, host))
    return plan


def packages(request: BackupRequest) -> list[str]:
    """Return the packages that the repositories need; a release of restic replaces its package."""
    names = request["packages"]
    sftp = any(row["kind"] == SFTP for row in public_rows(request))
    return [*([] if request["version"] else names["restic"]), *(names["sftp"] if sftp else [])]


def release_problems(request: BackupRequest) -> list[Problem]:
    """Return why the release cannot be had."""
    return [row for row in request["release"]["requirements"] if not row["ok"]] if request["version"] else []


def left_out(config: Config, host: Host) -> t.Iterator[Problem]:
    """Yield the file systems that no job backs up. Without jobs of its own a host loses none."""
    if not config.covered():
        return
    for mount in coverage.left_out(host.mounts, config.jobs.values(), config.local_paths()):
        text = f"have nothing of {mount.target} ({mount.fstype} on {mount.source}), which is mounted here"
        yield problem(
            "backup_jobs",
            text,
            "add it to the paths of a job, or to backup_excludes if it can be lost or has backups alone",
        )


def plan_absent(host: Host) -> Plan:
    """Plan to remove what the role installed. Repositories stay; runs end, with their hooks."""
    timers: list[UnitRow] = [{"name": name, "state": "stopped", "enabled": False} for name in host.timers()]
    services: list[UnitRow] = [{"name": name, "state": "stopped"} for name in host.services()]
    return Plan(units_gone=[*timers, *services], release_gone=host.release_due)


def is_due(row: RepositoryRow, user: str, host: Host) -> bool:
    """Return whether the settings of a repository have changed since it was last opened, or keys need attention."""
    record = RepositoryRecord.of(host.record.get(row["name"]))
    return record.is_due(RepositorySettings.of(row, user, host.fingerprints.get(row["name"], ""))) or bool(record.kept)


def make_config(request: BackupRequest) -> Config:
    """Build the configuration of the programs."""
    targets = {row["name"]: from_fields(Target, row) for row in request["repositories"]}
    jobs = {row["name"]: make_job(row, request, list(targets.values())) for row in request["jobs"]}
    return Config(
        check_parts=request["check_subset_parts"],
        manifest=MANIFEST if request["manifest"] else "",
        schedules={
            states.RUN: request["schedule"],
            **{name.removesuffix("_schedule"): schedule for name, schedule in schedules_of(request).items()},
        },
        repositories=targets,
        jobs=jobs,
        program=request["program"],
        user=request["user"],
        textfile_directory=request["textfile_directory"],
        notify_command=request["notify_command"],
        notify=request["notify"],
        retry_lock_s=request["retry_lock_s"],
        limit_upload_kib=request["limit_upload_kib"],
        limit_download_kib=request["limit_download_kib"],
        drill_paths=request["drill_paths"],
        drill_files=request["drill_files"],
        max_age_h=request["max_age_h"],
    )


def make_job(row: BackupJobs, request: BackupRequest, targets: t.Sequence[Target]) -> Job:
    """Build the configuration of a job."""
    paths = list(row.get("paths") or [])
    own_sets = row.get("exclude_sets")
    sets = request["exclude_sets"] if own_sets is None else own_sets
    own = [
        glob.escape(target.local_path)
        for target in targets
        if any(is_within(target.local_path, path) for path in paths)
    ]
    general = [*excludes.patterns(sets), *request["excludes"], *request["dataset_paths"]]
    patterns = [*excludes.sparing(general, paths), *(row.get("excludes") or []), *own]
    # Only the plan needs the programs that root would run.
    specs = {
        kind: [{key: value for key, value in spec.items() if key != "programs"} for spec in commands_of(row, kind)]
        for kind in WITH_COMMANDS
    }
    return from_fields(
        Job,
        {
            **{key: value for key, value in row.items() if value is not None},
            **specs,
            "repository": row.get("repository") or (targets[0].name if targets else ""),
            "host": row.get("host") or request["host"],
            "former_host": "" if row.get("host") else request.get("former_host", ""),
            "paths": paths,
            "excludes": patterns if paths else [],
            "retention": {key: value for key, value in retention_of(row, request).items() if value},
        },
    )


def is_covered(config: Config, place: str) -> bool:
    """Return whether a place is below the paths of a job, and not excluded there."""
    return any(
        is_within(place, path) and not excludes.excluded(place, job.excludes, job.paths)
        for job in config.jobs.values()
        for path in job.paths
    )


def raw_config(config: Config) -> JsonObject:
    """Return the configuration as plain data, without the command of the notifier: that may hold a secret, and diffs show this file."""
    raw = {key: value for key, value in dataclasses.asdict(config).items() if key != "notify_command"}
    return {**raw, "repositories": list(raw["repositories"].values()), "jobs": list(raw["jobs"].values())}


def findings(request: BackupRequest, config: Config, host: Host) -> t.Iterator[Finding]:
    """Yield what the user should know, and can change."""
    gone = sorted({path for path in config.covered() if path in host.missing})
    if gone:
        yield finding(
            "backup.paths",
            "warn",
            f"not there now: {', '.join(gone)}",
            "until they are, their jobs fail and make no snapshot",
        )
    if config.manifest and config.covered() and "/" not in config.covered():
        yield finding(
            "backup.rebuild",
            "warn",
            "/ is in no job: files can be restored, and the machine cannot be built again from its backup",
            "add / to the paths of a job, with /boot and /boot/efi where they are mounted, or set backup_manifest to false",
        )
    for target in config.repositories.values():
        paths = coverage.on_file_system_of(host.mounts, config.covered(), target.local_path)
        if paths:
            yield finding(
                f"backup.same_disk.{target.name}",
                "warn",
                f"{target.local_path} is on the file system of {', '.join(paths)}, which it backs up",
                "add a repository on another disk or machine: losing this disk loses both",
            )
    clear = [row["name"] for row in public_rows(request) if row["clear"]]
    if clear:
        yield finding(
            "backup.clear",
            "warn",
            f"reached without TLS: {', '.join(clear)}; the backups are encrypted, the server's password is not",
            "use https, or the tunnel (docs/frp.md)",
        )
    of_users = [
        shown(mount.target)
        for mount in host.mounts
        if mount.user
        and is_covered(config, mount.target)
        and not any(coverage.names(job, mount) for job in config.jobs.values())
    ]
    if of_users:
        yield finding(
            "backup.user_mounts",
            "warn",
            f"mounted by users, and in no backup: {', '.join(of_users)}",
            "back up what is behind it, if it is of this machine; a run goes on without it",
        )
    if host.missing_users:
        yield finding(
            "backup.users",
            "warn",
            f"not there now: {', '.join(sorted(host.missing_users))}, users of hooks or dumps in backup_jobs",
            "until they exist, these hooks and dumps fail",
        )

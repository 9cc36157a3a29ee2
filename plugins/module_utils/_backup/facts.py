# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts about a host that the backups depend on. Nothing is decided here."""

from __future__ import annotations

import dataclasses
import shutil
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import STATUS, parse_status
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import record
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.address import (
    RepositoryRow,
    fingerprint,
    public_rows,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.backup_options import BackupJobs
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.coverage import links
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.hooks import exposed
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.location import Unfit, unfit
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.record import read_password
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import PATH
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.units import FOLDER
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.value_types import (
    WITH_COMMANDS,
    BackupRequest,
    commands_of,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts, release_run
from ansible_collections.rigwright.workstation.plugins.module_utils._core.release import is_program
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject, Planned
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import (
    Mount,
    parse_fstab,
    read_mounts,
    with_planned,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system.servers import unanswered

Run = t.Callable[..., tuple[int, str, str]]


@dataclasses.dataclass(frozen=True)
class Host:
    """The facts about a host."""

    packages: t.AbstractSet[str] = frozenset()
    user_exists: bool = False
    release_due: bool = False  # whether the release has to be installed or, if the request has none, removed
    calendar: t.Mapping[str, str] = dataclasses.field(default_factory=dict)  # why systemd rejects a schedule
    mounts: t.Sequence[Mount] = ()
    fstab: t.Sequence[str] = ()
    missing: t.AbstractSet[str] = frozenset()  # paths of jobs and password files that do not exist
    links: t.Mapping[str, str] = dataclasses.field(
        default_factory=dict
    )  # paths of jobs that are links, and their targets
    fingerprints: t.Mapping[str, str] = dataclasses.field(default_factory=dict)  # of the content of password files
    record: t.Mapping[str, JsonObject] = dataclasses.field(default_factory=dict)
    units: t.Sequence[str] = ()  # units of this role that exist
    outdated: bool = False  # whether systemd has loaded older services than the files
    exposed: t.Mapping[str, t.Sequence[str]] = dataclasses.field(
        default_factory=dict
    )  # programs that root would run and password files, with the paths that users other than root can change or read
    unfit: t.Mapping[str, tuple[str, str]] = dataclasses.field(
        default_factory=dict
    )  # directories of repositories whose owner root cannot safely change: the problem and its remedy
    missing_users: t.AbstractSet[str] = frozenset()  # users of hooks and dumps that do not exist

    def timers(self) -> list[str]:
        """Return the timers of the role."""
        return [name for name in self.units if name.endswith(".timer")]

    def services(self) -> list[str]:
        """Return the services that can run; a template cannot run by itself."""
        return [name for name in self.units if name.endswith(".service") and "@" not in name]


def schedules_of(request: BackupRequest) -> dict[str, str]:
    """Return the schedules of all but the jobs themselves, by their options."""
    return {
        "forget_schedule": request["forget_schedule"],
        "prune_schedule": request["prune_schedule"],
        "check_schedule": request["check_schedule"],
        "drill_schedule": request["drill_schedule"],
    }


def read_units(tree: Tree) -> list[str]:
    """Return the names of the role's unit files."""
    return [name for name in tree.names(FOLDER) if name.startswith("rigwright-backup-")]


def read_release_due(request: BackupRequest, tree: Tree) -> bool:
    """Return whether the release has to be installed or removed; True for one that release_archive refuses."""
    root, release = tree.at("/opt"), request["release"]
    if request["state"] == "absent" or not request["version"]:
        return release_run.is_due(name="restic", user="backup", install_root=root, state="absent")
    return release_run.is_due(
        name="restic",
        user="backup",
        install_root=root,
        version=release["version"],
        url=release["url"],
        checksum=release["checksum"],
        programs={tree.at(request["program"]): is_program(release["url"])},
    )


def read_installed(request: BackupRequest, tree: Tree) -> Host:
    """Read what the role installed."""
    return Host(units=read_units(tree), release_due=read_release_due(request, tree))


def read_outdated(run: Run, services: t.Sequence[str]) -> bool:
    """Return whether systemd has loaded an older version of a service: a run that was cut short did not reload it."""
    if not services:
        return False
    _rc, out, _err = run(["systemctl", "show", "--property=NeedDaemonReload", *services])
    return "NeedDaemonReload=yes" in out


def ask_calendar(run: Run, schedules: t.Iterable[str]) -> dict[str, str]:
    """Return why systemd rejects each schedule; empty for a valid one."""
    found = {}
    for schedule in sorted({*schedules} - {""}):
        rc, out, err = run(["systemd-analyze", "calendar", "--", schedule])
        found[schedule] = "" if rc == 0 else (err or out).strip() or f"it ends with {rc}"
        if rc == 0 and "Next elapse: never" in out:
            found[schedule] = "it never comes"
    return found


def read_exposed(
    jobs: t.Sequence[BackupJobs], repositories: t.Sequence[RepositoryRow], tree: Tree
) -> t.Iterator[tuple[str, list[str]]]:
    """Yield what users other than root can change of the programs that root runs, and change or read of password files."""
    specs = [spec for job in jobs for kind in WITH_COMMANDS for spec in commands_of(job, kind)]
    for name in sorted({name for spec in specs for name in spec.get("programs") or []}):
        yield name, exposed(tree.at(shutil.which(name, path=PATH) or name))
    for row in repositories:
        if row["password_file"]:
            yield row["password_file"], exposed(tree.at(row["password_file"]), secret=True)


def read_unfit(
    repositories: t.Sequence[RepositoryRow], user: str, tree: Tree, gone: t.Mapping[str, str]
) -> t.Iterator[tuple[str, Unfit | None]]:
    """Yield why root cannot give the directory of a repository to the user of the units.

    :param gone: paths on servers that do not answer, each with where it is mounted.
    """
    for row in repositories:
        path = row["local_path"]
        if path in gone:
            yield path, Unfit(f"is at {path}, and the server of {gone[path]} does not answer", "bring the server back")
        elif path:
            yield path, unfit(tree.at(path), user)


def read_host(run: Run, request: BackupRequest, tree: Tree, planned: Planned) -> Host:
    """Read all facts that a plan needs."""
    jobs, repositories = request["jobs"], public_rows(request)
    schedules = [request["schedule"], *schedules_of(request).values()]
    schedules += [str(job["schedule"]) for job in jobs if job.get("schedule")]
    mounts = with_planned(read_mounts(tree.at("/proc/self/mountinfo")), planned)
    of_jobs = [path for job in jobs for path in job.get("paths") or []]
    paths = [*of_jobs, *(row["password_file"] for row in repositories)]
    gone = unanswered([*of_jobs, *(row["local_path"] for row in repositories if row["local_path"])], mounts)
    passwords = {
        row["name"]: read_password(tree.at(row["password_file"])) for row in repositories if row["password_file"]
    }
    users = [spec.get("user") for job in jobs for kind in WITH_COMMANDS for spec in commands_of(job, kind)]
    installed = read_installed(request, tree)
    coming = {*(planned.get("directories") or []), *(row["target"] for row in planned.get("mounts") or [])}
    packages = parse_status(tree.text(STATUS))
    return Host(
        packages=frozenset(name for name, package in packages.items() if package.whole),
        user_exists=accounts.user(request["user"]) is not None,
        release_due=installed.release_due,
        calendar=ask_calendar(run, schedules),
        mounts=mounts,
        fstab=parse_fstab(tree.text("/etc/fstab")),
        missing=frozenset(
            path for path in paths if path and path not in coming and (path in gone or not tree.exists(path))
        ),
        links=links(path for path in of_jobs if path not in gone),
        fingerprints={name: fingerprint(name, text) for name, text in passwords.items()},
        record=record.read(tree.at(record.RECORD)),
        units=installed.units,
        outdated=read_outdated(run, installed.services()),
        exposed={path: places for path, places in read_exposed(jobs, repositories, tree) if places},
        unfit={path: reason for path, reason in read_unfit(repositories, request["user"], tree, gone) if reason},
        missing_users=frozenset(user for user in users if user and not accounts.user(user)),
    )

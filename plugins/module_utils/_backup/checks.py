# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Validate a request for backups. Each problem names a variable and a remedy; any problem blocks all changes."""

from __future__ import annotations

import math
import posixpath
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import excludes
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import state as states
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import value_types as kinds
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.address import (
    NAME,
    RepositoryRow,
    public_rows,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.backup_options import BackupJobs
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.facts import Host, schedules_of
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.retention import KEEP
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.tags import JOB, MACHINE, PART
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.value_types import BackupRequest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.identity import problems_of_name
from ansible_collections.rigwright.workstation.plugins.module_utils._core.names import is_new_name
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import is_within

_HOST = re.compile(r"[\w.-]+")
_WITHIN = re.compile(r"(\d+[ymdh])+")


def retention_of(row: BackupJobs, request: BackupRequest) -> JsonObject:
    """Return the retention of a job, which is that of the role by default."""
    own = row.get("retention")
    return request["retention"] if own is None else own


def problems(request: BackupRequest, host: Host) -> t.Iterator[Problem]:
    """Yield the problems of a request on this host."""
    targets = {row["name"]: row for row in public_rows(request)}
    unfit = list(kinds.problems(request))
    yield from unfit
    if unfit:
        return
    yield from general_problems(request)
    names = [row["name"] for row in request["jobs"]]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield problem("backup_jobs", f"has two jobs of the name {name}", "give each a name of its own")
    for row in request["jobs"]:
        yield from job_problems(row, request, targets, host)
    yield from overlaps(request)
    for path, real in sorted(host.links.items()):
        yield problem(
            "backup_jobs",
            f"has {path}, which is a link to {real}",
            f"name {real}: of a link nothing is backed up but itself",
        )
    for target in targets.values():
        off = [place for place in host.fstab if target["local_path"] and is_within(target["local_path"], place)]
        mounted = {mount.target for mount in host.mounts}
        for place in off:
            if place not in mounted:
                text = f"has {target['name']} on {place}, which is in fstab and not mounted"
                yield problem("backup_repositories", text, "mount it: the backups would fill the disk below it")
        if target["password_file"] and target["password_file"] in host.missing:
            yield problem(
                "backup_repositories",
                f"has for {target['name']} the password_file {target['password_file']}, which does not exist",
                "create it",
            )
        if target["local_path"] in host.unfit:
            text, remedy = host.unfit[target["local_path"]]
            yield problem("backup_repositories", f"has {target['name']}, which {text}", remedy)
        found = host.exposed.get(target["password_file"] or "")
        if found:
            yield problem(
                "backup_repositories",
                f"has for {target['name']} the password_file {target['password_file']}, and users other than root can read or change"
                f" {', '.join(found)}",
                f"`chown root:root` and `chmod go-w` the directories, `chmod 600 {target['password_file']}`; or name another file",
            )
    for schedule, text in sorted(host.calendar.items()):
        if text:
            yield problem(
                schedule_variable(schedule, request),
                f"is {schedule!r}, which systemd does not take: {text}",
                "write it as systemd.time(7) has it, such as `daily` or `Sun 03:00`, and try it by `systemd-analyze calendar`",
            )


def schedule_variable(schedule: str, request: BackupRequest) -> str:
    """Return the variable that has a schedule."""
    of_verbs = {"schedule": request["schedule"], **schedules_of(request)}
    return next((f"backup_{key}" for key, value in of_verbs.items() if value == schedule), "backup_jobs")


def general_problems(request: BackupRequest) -> t.Iterator[Problem]:
    """Yield the problems of the variables other than jobs and repositories."""
    if not request["repositories"]:
        yield problem("backup_repositories", "is empty", "name a repository, as docs/backup.md does")
    if not request["jobs"]:
        yield problem("backup_jobs", "is empty", "say what is to be backed up, as docs/backup.md does")
    if not _HOST.fullmatch(request["host"]):
        yield problem(
            "backup_host", f"is {request['host']!r}, which is no name of a host", "use letters, digits, dots and -"
        )
    yield from problems_of_name("backup_host", request["host"])
    if not is_new_name(request["user"]) or request["user"] == "root":
        yield problem("backup_user", f"is {request['user']!r}", "name a user of the system that is not root")
    unknown = sorted({*request["exclude_sets"]} - excludes.SETS.keys())
    if unknown:
        yield problem("backup_exclude_sets", f"has {', '.join(unknown)}", f"choose among {', '.join(excludes.SETS)}")
    if request["textfile_directory"] and not absolute(request["textfile_directory"]):
        yield problem(
            "backup_textfile_directory",
            "is no absolute path",
            "name node_exporter's directory, as /var/lib/prometheus/node-exporter, or leave it empty",
        )
    for key, paths in (("dataset_paths", request["dataset_paths"]), ("drill_paths", request["drill_paths"])):
        wrong = [path for path in paths if not absolute(path)]
        if wrong:
            yield problem(
                f"backup_{key}",
                f"has {', '.join(wrong)}, no absolute path",
                "write paths from / on, without a slash at the end",
            )
    command = request["notify_command"]
    # Other letters at its beginning mean something to systemd.
    if command and not (re.match(r"[/\w]", command[0]) and kinds.is_program(command[0])):
        yield problem(
            "backup_notify_command", "begins with what is no program", "give a list of words, the program first"
        )
    for key, number, least, most in (
        ("check_subset_parts", request["check_subset_parts"], 1, 256.0),  # restic takes no more
        ("drill_files", request["drill_files"], 1, math.inf),
        ("retry_lock_s", request["retry_lock_s"], 0, math.inf),
        ("limit_upload_kib", request["limit_upload_kib"], 0, math.inf),
        ("limit_download_kib", request["limit_download_kib"], 0, math.inf),
        ("randomized_delay_s", request["randomized_delay_s"], 0, math.inf),
    ):
        if not least <= number <= most:
            bounds = f"{least} or more" if most == math.inf else f"{least} to {most:.0f}"
            yield problem(f"backup_{key}", f"is {number}", f"set it to {bounds}")
    wrong = sorted({*request["max_age_h"]} - states.MAX_AGE_H.keys())
    if wrong or not all(kinds.is_count(hours) and hours for hours in request["max_age_h"].values()):
        yield problem(
            "backup_max_age_h",
            f"has {', '.join(wrong) or 'an age below an hour'}",
            f"give hours for some of {', '.join(states.MAX_AGE_H)}",
        )


def absolute(path: str) -> bool:
    """Return whether a path is absolute and normalized."""
    return path.startswith("/") and posixpath.normpath(path) == path and not path.startswith("//")


def job_problems(
    row: BackupJobs, request: BackupRequest, targets: t.Mapping[str, RepositoryRow], host: Host
) -> t.Iterator[Problem]:
    """Yield the problems of one job."""
    name = str(row["name"])

    def wrong(text: str, remedy: str) -> Problem:
        return problem("backup_jobs", f"has in {name} {text}", remedy)

    if not NAME.fullmatch(name):
        yield wrong(
            "a name that no unit can have", "use small letters, digits, - and _, beginning with a letter or digit"
        )
    named = row.get("repository")
    if named and named not in targets:
        yield wrong(
            f"the repository {named}, which backup_repositories has not",
            f"name one of {', '.join(targets) or 'those there'}",
        )
    if not named and len(targets) > 1:
        yield wrong("no repository, and there are several", f"name one of {', '.join(targets)}")
    paths, dumps = list(row.get("paths") or []), list(row.get("dumps") or [])
    for path in paths:
        if not absolute(path):
            yield wrong(
                f"the path {path!r}, which is no absolute path", "write it from / on, without a slash at the end"
            )
        elif path in host.missing and any(letter in path for letter in "*?["):
            yield wrong(f"the path {path}, which is not there", "name each directory: a path is no pattern")
        elif excludes.excluded(path, row.get("excludes") or [], [path]):
            yield wrong(f"the path {path}, which its own excludes leave out", "take one of them away")
    for pattern in filter(excludes.unreadable, map(str, row.get("excludes") or [])):
        yield wrong(
            f"the exclude {pattern!r}, which restic does not read", "close its bracket, or write \\[ for one in a name"
        )
    if (
        any(is_within(inner, other) for inner in paths for other in paths if inner != other)
        and row.get("one_file_system") is False
    ):
        yield wrong("a path that is inside another path of the job", "name only the outer path")
    if not paths and not dumps and row.get("schedule") != "":
        yield wrong(
            "neither paths nor dumps",
            'say what is to be backed up, or set schedule: "" for a job that only lets the snapshots of another host go',
        )
    yield from retention_problems(wrong, retention_of(row, request))
    host_name = row.get("host")
    if host_name and not _HOST.fullmatch(host_name):
        yield wrong(f"the host {host_name!r}, which is no name of one", "use letters, digits, dots and -")
    for kind in kinds.WITH_COMMANDS:
        for number, spec in enumerate(kinds.commands_of(row, kind)):
            for program in spec.get("programs") or []:
                if host.exposed.get(program):
                    yield wrong(
                        f"in {kind}[{number}] the program {program}, which root would run and others can change:"
                        f" {', '.join(host.exposed[program])}",
                        "`chown root:root` and `chmod go-w` them, name another program, or the `user` that it runs as",
                    )
    for dump in dumps:
        file = dump.get("filename")
        if file is not None and not absolute(f"/{file}"):
            yield wrong(
                f"the filename {file!r} of a dump", "name a file, or one in a directory, without / at its beginning"
            )
    called = [str(dump["name"]) for dump in dumps]
    if len({*called}) < len(called) or not all(NAME.fullmatch(name) for name in called):
        yield wrong(
            "dumps with one name, or with one that is none", "give each a name of its own, of small letters and digits"
        )
    tags = [str(tag) for tag in row.get("tags") or []]
    if any("," in tag or not tag or tag.startswith((JOB, PART, MACHINE)) for tag in tags):
        yield wrong("a tag with a comma, or one that the role sets itself", "use other words")
    unknown = sorted({*(row.get("exclude_sets") or [])} - excludes.SETS.keys())
    if unknown:
        yield wrong(f"the exclude_sets {', '.join(unknown)}", f"choose among {', '.join(excludes.SETS)}")


def retention_problems(wrong: t.Callable[[str, str], Problem], retention: JsonObject) -> t.Iterator[Problem]:
    """Yield the problems of a retention."""
    counts = {key: value for key, value in retention.items() if key != "within" and value is not None}
    unknown = sorted({*retention} - {*KEEP})
    if unknown:
        yield wrong(f"a retention with {', '.join(unknown)}", f"use {', '.join(KEEP)}")
    elif not all(kinds.is_count(value) for value in counts.values()):
        yield wrong("a retention with what is no number from 0 on", "say how many of each are kept")
    elif retention.get("within") and not _WITHIN.fullmatch(str(retention["within"])):
        yield wrong(f"a retention within {retention['within']!r}", "write it as 2y5m7d3h")
    elif not re.search("[1-9]", str(retention.get("within") or "")) and not any(counts.values()):
        yield wrong(
            "a retention that keeps nothing", "say how many are kept, such as {daily: 7, weekly: 5, monthly: 12}"
        )


def overlaps(request: BackupRequest) -> t.Iterator[Problem]:
    """Yield the paths that two jobs would back up into one repository: twice the time, and two retentions for one path."""
    only = request["repositories"][0]["name"] if len(request["repositories"]) == 1 else None
    rows = [(str(row["name"]), row.get("repository") or only, row) for row in request["jobs"]]
    for name, repository, row in rows:
        for other, place, inner in rows:
            if name == other or repository != place:
                continue
            for path in inner.get("paths") or []:
                over = [
                    mine
                    for mine in row.get("paths") or []
                    if absolute(mine) and absolute(path) and is_within(path, mine)
                ]
                if not over or excludes.excluded(path, row.get("excludes") or []) or (path in over and name > other):
                    continue
                text = f"has {path} in {other}, and in {name} by its {over[0]}"
                yield problem(
                    "backup_jobs",
                    text,
                    f"exclude it from {name}: `excludes: [{path}]`, or take it out of one of them",
                )

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read what a plan of backups needs to know of the host: users, units, mounts, records."""

from __future__ import annotations

import json
import shutil
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import STATUS, parse_status
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.address import fingerprint
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.checks import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.coverage import links
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.hooks import WITH_COMMANDS, exposed
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.location import Unfit, unfit
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.record import RECORD, read_password
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import PATH
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.units import FOLDER
from ansible_collections.rigwright.workstation.plugins.module_utils._core.accounts import uid_of
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import (
    parse_fstab,
    read_mounts,
    with_planned,
)

ROOT = "/"


def read_units(tree: Tree) -> list[str]:
    return [name for name in tree.names(FOLDER) if name.startswith("rigwright-backup-")]


def read_outdated(module: AnsibleModule, services: t.Sequence[str]) -> bool:
    """Return whether systemd still has older units: an interrupted run of the role wrote newer ones without a reload."""
    if not services:
        return False
    _rc, out, _err = module.run_command(["systemctl", "show", "--property=NeedDaemonReload", *services])
    return "NeedDaemonReload=yes" in out


def read_record(tree: Tree) -> dict[str, t.Any]:
    """Read the record of opened repositories; a damaged one counts as none, and is written again."""
    try:
        found = json.loads(tree.text(RECORD) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def ask_calendar(module: AnsibleModule, schedules: t.Iterable[str]) -> dict[str, str]:
    """Return what systemd says against each schedule; empty where it accepts it."""
    found = {}
    for schedule in sorted({*schedules} - {""}):
        rc, out, err = module.run_command(["systemd-analyze", "calendar", "--", schedule])
        found[schedule] = "" if rc == 0 else (err or out).strip() or f"it ends with {rc}"
        if rc == 0 and "Next elapse: never" in out:
            found[schedule] = "it never comes"
    return found


def read_exposed(
    jobs: t.Sequence[t.Mapping[str, t.Any]], repositories: t.Sequence[t.Mapping[str, t.Any]], tree: Tree
) -> t.Iterator[tuple[str, list[str]]]:
    """Return programs of root and files of passwords that users other than root can change or read."""
    specs = [spec for job in jobs for what in WITH_COMMANDS for spec in job.get(what) or []]
    for name in sorted({name for spec in specs for name in spec.get("programs") or []}):
        yield name, exposed(tree.at(shutil.which(name, path=PATH) or name))
    for row in repositories:
        if row["password_file"]:
            yield row["password_file"], exposed(tree.at(row["password_file"]), secret=True)


def read_unfit(
    repositories: t.Sequence[t.Mapping[str, t.Any]], user: str, tree: Tree
) -> t.Iterator[tuple[str, Unfit | None]]:
    """Return why root cannot give directories of repositories to the user of the units."""
    for row in repositories:
        if row["local_path"]:
            yield row["local_path"], unfit(tree.at(row["local_path"]), user)


def read_host(module: AnsibleModule, request: t.Mapping[str, t.Any], tree: Tree) -> Host:
    jobs, repositories = request["jobs"], request["repositories"]
    schedules = [request["schedule"], *(request[f"{verb}_schedule"] for verb in ("forget", "prune", "check", "drill"))]
    schedules += [str(job["schedule"]) for job in jobs if job.get("schedule")]
    paths = [
        *(path for job in jobs for path in job.get("paths") or []),
        *(row["password_file"] for row in repositories),
    ]
    passwords = {
        row["name"]: read_password(tree.at(row["password_file"])) for row in repositories if row["password_file"]
    }
    commands = [spec for job in jobs for what in WITH_COMMANDS for spec in job.get(what) or []]
    found = Host(units=read_units(tree))
    planned = module.params["planned"] if module.check_mode else {}
    coming = {*(planned.get("directories") or []), *(row["target"] for row in planned.get("mounts") or [])}
    packages = parse_status(tree.text(STATUS))
    return Host(
        packages=frozenset(name for name, package in packages.items() if package.whole),
        user_there=uid_of(request["user"]) is not None,
        release_there=tree.exists("/opt/restic/.rigwright/backup.json"),
        calendar=ask_calendar(module, schedules),
        mounts=with_planned(read_mounts(tree.at("/proc/self/mountinfo")), planned),
        fstab=parse_fstab(tree.text("/etc/fstab")),
        missing=frozenset(path for path in paths if path and path not in coming and not tree.exists(path)),
        links=links(path for job in jobs for path in job.get("paths") or []),
        fingerprints={name: fingerprint(name, text) for name, text in passwords.items()},
        record=read_record(tree),
        units=found.units,
        outdated=read_outdated(module, found.services()),
        exposed={path: found for path, found in read_exposed(jobs, repositories, tree) if found},
        unfit={path: found for path, found in read_unfit(repositories, request["user"], tree) if found},
        strangers=frozenset(
            str(spec["user"]) for spec in commands if spec.get("user") and uid_of(spec["user"]) is None
        ),
    )

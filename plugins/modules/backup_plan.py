#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: backup_plan
short_description: Plan the backups of a host, and refuse what would not be one
description:
  - Reads the host (packages, mounts, C(fstab), timers that are there) and returns what the role P(rigwright.workstation.backup#role) has to
    do, and why it may not. Changes nothing itself.
  - systemd itself says whether it understands a schedule, by C(systemd-analyze calendar).
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details:
      - Nothing is ever changed.
options:
  state:
    description:
      - V(absent) plans to give back what the role brought.
    type: str
    choices: [present, absent]
    default: present
  request:
    description:
      - The variables of the role by their names without C(backup_), the repositories as the filter
        P(rigwright.workstation.backup_request#filter) has them, and the jobs as P(rigwright.workstation.backup_commands#filter) does.
        No secret is among them.
      - Beside them C(packages) to install, C(program) (the path of restic), C(hardening) (lines of a unit) and C(header).
      - Required if O(state=present).
    type: dict
    default: {}
  planned:
    description:
      - In check mode, what earlier tasks of the run would have made. It is taken as there (C(roles/common/vars/planned.yml)).
    type: dict
    default: {}
notes:
  - Run it as root.
seealso:
  - module: rigwright.workstation.backup_repository
"""

EXAMPLES = r"""
- name: Plan the backups
  rigwright.workstation.backup_plan:
    request: "{{ __backup_request }}"
  register: plan

- name: Refuse jobs that overlap, or a retention that keeps nothing
  rigwright.workstation.require:
    that: "{{ plan.requirements }}"
"""

RETURN = r"""
requirements:
  description: What is not as it has to be, as M(rigwright.workstation.require) takes it. With any, the rest of the plan is empty.
  returned: success
  type: list
  elements: dict
  sample: [{ok: false, variable: backup_jobs, problem: "has in home a retention that keeps nothing", remedy: "say how many are kept"}]
findings:
  description: What is left to do, as M(rigwright.workstation.finding) takes it.
  returned: success
  type: list
  elements: dict
  sample: []
install:
  description: Packages to install.
  returned: success
  type: list
  elements: str
  sample: [restic]
release_gone:
  description: Whether a release of restic is there that is no longer asked for.
  returned: success
  type: bool
user_due:
  description: Whether the user of the units has to be made.
  returned: success
  type: bool
repositories_due:
  description: Repositories that are asked for otherwise than when they were last opened, or that still take an old password.
  returned: success
  type: list
  elements: str
  sample: [disk]
directories:
  description: Directories that the files need.
  returned: success
  type: list
  elements: dict
  sample: [{path: /etc/rigwright}]
files:
  description: Configuration and units, as M(rigwright.workstation.config_files) takes them.
  returned: success
  type: list
  elements: dict
  sample: [{path: /etc/systemd/system/rigwright-backup-run-home.timer, content: "[Unit] ..."}]
reload_due:
  description: Whether systemd knows older services than lie there.
  returned: success
  type: bool
units:
  description: The timers, as M(rigwright.workstation.systemd_units) takes them.
  returned: success
  type: list
  elements: dict
  sample: [{name: rigwright-backup-run-home.timer, state: started, enabled: true}]
units_gone:
  description: Timers that nobody asks for any more; for O(state=absent) the services as well, so that no run goes on.
  returned: success
  type: list
  elements: dict
  sample: []
"""

import dataclasses
import json
import pwd
import shutil
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import STATUS, parse_status
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import plan as planning
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import value_types as kinds
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.address import fingerprint
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.checks import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.coverage import links
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.hooks import WITH_COMMANDS, exposed
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.location import Unfit, unfit
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.record import RECORD, read_password
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import PATH
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.units import FOLDER
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
    """Whether systemd knows an older one: a run of the role that was cut short has written it, and told nobody."""
    if not services:
        return False
    _rc, out, _err = module.run_command(["systemctl", "show", "--property=NeedDaemonReload", *services])
    return "NeedDaemonReload=yes" in out


def read_record(tree: Tree) -> dict[str, t.Any]:
    """What was opened before; a record that is damaged is none, and is made anew."""
    try:
        found = json.loads(tree.text(RECORD) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def there(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def ask_calendar(module: AnsibleModule, schedules: t.Iterable[str]) -> dict[str, str]:
    """What systemd has against schedules."""
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
    """What others than root can change of the programs that root would run, and change or read of files of passwords."""
    specs = [spec for job in jobs for what in WITH_COMMANDS for spec in job.get(what) or []]
    for name in sorted({name for spec in specs for name in spec.get("programs") or []}):
        yield name, exposed(tree.at(shutil.which(name, path=PATH) or name))
    for row in repositories:
        if row["password_file"]:
            yield row["password_file"], exposed(tree.at(row["password_file"]), secret=True)


def read_unfit(
    repositories: t.Sequence[t.Mapping[str, t.Any]], user: str, tree: Tree
) -> t.Iterator[tuple[str, Unfit | None]]:
    """What keeps root from giving the directories of repositories to the user of the units."""
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
        user_there=there(request["user"]),
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
        strangers=frozenset(str(spec["user"]) for spec in commands if spec.get("user") and not there(spec["user"])),
    )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "request": {"type": "dict", "default": {}},
            "planned": {"type": "dict", "default": {}},
        },
        required_if=[("state", "present", ["request"])],
        supports_check_mode=True,
    )
    tree = Tree(ROOT)
    if module.params["state"] == "absent":
        plan = planning.plan_absent(Host(units=read_units(tree)))
    else:
        request = module.params["request"]
        # What is of another kind can be asked nothing about.
        unfit = any(kinds.faults(request))
        plan = planning.plan_present(request, Host() if unfit else read_host(module, request, tree))
    module.exit_json(changed=False, **dataclasses.asdict(plan))


if __name__ == "__main__":
    main()

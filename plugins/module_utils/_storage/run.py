# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One request for disks, mounts and directories: read the host, plan, apply, and report."""

from __future__ import annotations

import dataclasses
import grp
import os
import pwd
import shutil
import typing as t
import uuid

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts, acl
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import UnsafePath
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Refused
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.record import Damaged
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Diff, JsonObject, PlannedMount
from ansible_collections.rigwright.workstation.plugins.module_utils._core.runner import Runner
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import (
    apply,
    directories,
    findings,
    fstab,
    lvm_cache,
    rows,
    units,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import dataset_cache as storage_cache
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import facts as disk_facts
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.disks import find
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.model import Facts, Plan
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.plan import plan
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.request import (
    FILE_SYSTEMS,
    Directory,
    Entry,
    mount_of,
    read_directories,
    read_entries,
)

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def number(tag: int, name: str) -> int:
    """Return the id of a user or group; ``of alice`` is her own group."""
    if tag == acl.USER:
        return pwd.getpwnam(name).pw_uid
    return pwd.getpwnam(name[3:]).pw_gid if name.startswith("of ") else grp.getgrnam(name).gr_gid


def unknown(wanted: t.Iterable[Directory], groups: t.Collection[str]) -> set[tuple[int, str]]:
    """Return missing users and groups, without groups that earlier tasks make."""
    missing = set()
    for tag, name in {named for directory in wanted for named in directories.names(directory)}:
        try:
            number(tag, name)
        except KeyError:
            if tag == acl.USER or name not in groups:
                missing.add((tag, name))
    return missing


class Storage:
    """A request, the facts of the host, and the plan.

    :param params: the options of M(rigwright.workstation.storage_disks).
    """

    def __init__(self, module: Runner, params: t.Mapping[str, t.Any]) -> None:
        self.module, self.params = module, params
        request = {} if params["state"] == "absent" else params
        disks, odd = rows.read_rows("storage_disks", request.get("disks", []), rows.DISK)
        listed, odd_too = rows.read_rows("storage_directories", request.get("directories", []), rows.DIRECTORY)
        self.entries, refused = read_entries(disks)
        refused = [*odd, *odd_too, *refused]
        own = [*roots(self.entries), *listed]
        users, environment = request.get("users", []), request.get("environment", {})
        self.wanted, wrong = read_directories(own, users, environment, self.entries)
        cache = request.get("cache", {})
        wrong += storage_cache.requirements(cache, self.entries)
        self.dataset_cache = {} if wrong else storage_cache.configuration(cache, self.entries)
        if self.dataset_cache:
            asked_for = {directory.path: directory for directory in self.wanted}
            for directory in storage_cache.directories(cache):
                # Who may write there is no matter of taste.
                quota = asked_for[directory.path].quota if directory.path in asked_for else 0
                asked_for[directory.path] = dataclasses.replace(directory, quota=quota)
            self.wanted = sorted(asked_for.values(), key=lambda directory: (directory.path.count("/"), directory.path))
        try:
            self.record = apply.read_record(apply.RECORD)
        except Damaged as error:
            raise Refused(f"{error}. Nothing was changed.") from error
        named = [entry for entry in self.entries if bool(entry.id) != bool(entry.serial)]
        self.facts = disk_facts.facts(self.run, named, self.record)
        self.plan = plan(named, request.get("confirm_wipe", []), self.facts, lambda: str(uuid.uuid4()))
        sizes = {work.entry.mount: work.disk.size for work in self.plan.works}
        self.groups = params["planned"].get("groups") or [] if module.check_mode else []
        missing = unknown(self.wanted, self.groups)
        found = self.plan.requirements
        self.plan.requirements = [
            *refused,
            *wrong,
            *found,
            *directories.requirements(self.wanted, self.entries, sizes, missing),
        ]
        self.cache = self.cache_commands(cache)
        self.linked: list[str] = []
        self.states = {} if self.plan.requirements else self.read_directories()
        self.targets = {} if self.plan.requirements else self.target_states()
        self.unsafe = self.unsafe_sets()

    def run(self, command: t.Sequence[str], data: str | None = None) -> tuple[int, str, str]:
        arguments = [self.module.get_bin_path(command[0]) or command[0], *command[1:]]
        rc, out, err = self.module.run_command(arguments, data=data)
        return rc, out, err

    def cache_commands(self, request: JsonObject) -> list[list[str]]:
        """Return the commands that an LVM cache needs; its problems go to the requirements."""
        if request.get("mode") != "lvmcache":
            return []
        commands: list[list[str]] = []
        refused = list(lvm_cache.requirements(request))
        if not refused:
            lvs, pvs = (
                lvm_cache.rows(self.run(command)[1], command[0][:-1]) for command in (lvm_cache.LVS, lvm_cache.PVS)
            )
            name = os.path.basename(request["device"])
            disks = [disk_facts.with_content(self.run, disk) for disk in find(self.facts.disks, name, "")]
            refused, commands = lvm_cache.plan(request, lvs, pvs, disks)
        self.plan.requirements += refused
        return commands

    # --- Directories ---

    def limits(self, entry: Entry) -> dict[int, int]:
        quota = ["xfs_quota", "-x", *([] if entry.fs == "xfs" else ["-f"]), "-c", "report -p -b -n -N", entry.mount]
        return directories.parse_limits(self.run(quota)[1])

    def read_directories(self) -> dict[str, directories.State | None]:
        """Return the state of directories on disks that are mounted now and stay so."""
        mounted = {work.entry.mount: work.entry for work in self.plan.works if not work.mount}
        limits = {
            mount: self.limits(entry)
            for mount, entry in mounted.items()
            if entry.quota and shutil.which("xfs_quota", path=PATH)
        }
        states: dict[str, directories.State | None] = {}
        for directory in self.wanted:
            entry = mount_of(directory.path, self.entries)
            try:
                found = directories.read(directory.path) if entry and entry.mount in mounted else None
            except UnsafePath:
                self.linked.append(directory.path)
                continue
            if found and entry and found.project:
                limit = limits.get(entry.mount, {}).get(found.project, 0)
                found = directories.State(found.uid, found.gid, found.mode, found.acl, found.project, limit)
            states[directory.path] = found
        for path in self.linked:
            self.plan.requirements.append(
                problem(
                    "storage_directories",
                    f"has {path}, and a part of it is a link or no directory",
                    "name the path that it leads to, or take it away",
                )
            )
        return states

    def unsafe_sets(self) -> list[str]:
        """Return what an older release left in the cache of datasets so that users can exchange it, and the tag that it lacks."""
        path = self.dataset_cache.get("cache", "")
        sets = f"{path}/{storage_cache.SETS}"
        found = []
        if self.states.get(sets):
            found = [f"{sets}/{name}" for name in directories.exchangeable(sets)]
        if self.states.get(path) and not directories.is_tagged(path):
            found.append(f"{path}/{directories.TAG}")
        return found

    def target_states(self) -> dict[str, directories.State]:
        projects = directories.next_projects(self.wanted, self.states)
        found = {}
        for directory in self.wanted:
            had = self.states.get(directory.path)
            # The project is left to a directory that has no quota: it may be its parent's.
            project = projects.get(directory.path, had.project if had else 0)
            found[directory.path] = directories.wanted_state(directory, self.number, project)
        return found

    def number(self, tag: int, name: str) -> int:
        """Return the id of a user or group; an unused one for a group that check mode only plans."""
        return (
            2**32 - 2 if tag != acl.USER and name in self.groups and accounts.group(name) is None else number(tag, name)
        )

    @property
    def undone(self) -> list[str]:
        """Return paths of directories that differ from the request."""
        return [path for path, target in self.targets.items() if self.differs(path, target)]

    def differs(self, path: str, target: directories.State) -> bool:
        had = self.states.get(path)
        if had and not target.limit and had.project:
            # A limit of the parent's project is not this directory's.
            parents = [state.project for other, state in self.targets.items() if path.startswith(f"{other}/")]
            if had.project in parents:
                target = directories.State(target.uid, target.gid, target.mode, target.acl, had.project, had.limit)
        return had != target

    def write_directories(self) -> None:
        due = self.undone
        for directory in self.wanted:
            if directory.path not in due:
                continue
            entry = mount_of(directory.path, self.entries)
            target = self.targets[directory.path]
            directories.write(directory.path, target)
            had = self.states.get(directory.path)
            for command in directories.commands(directory.path, entry.mount, entry.fs, had, target) if entry else ():
                rc, out, err = self.run(command)
                if rc != 0:
                    raise apply.Failed(f"`{' '.join(command)}` ended with {rc}: {(err or out).strip()}")
        if self.dataset_cache:
            directories.make_sticky(f"{self.dataset_cache['cache']}/{storage_cache.SETS}")
            directories.tag(self.dataset_cache["cache"])

    # --- Results ---

    @property
    def changes(self) -> list[str]:
        changes = [step for work in self.plan.works for step in work.todo]
        changes += [f"take back {given.get('mount') or key}" for key, given in self.plan.gone.items()]
        changes += [" ".join(command) for command in self.cache]
        changes += ["write /etc/fstab"] if self.plan.fstab != self.facts.fstab else []
        changes += [f"{path}: owner, mode, ACL or quota" for path in self.undone]
        return changes + [f"{path}: sticky bit or tag" for path in self.unsafe]

    @property
    def changed_paths(self) -> list[str]:
        paths = ["/etc/fstab"] if self.plan.fstab != self.facts.fstab else []
        paths += [work.entry.mount for work in self.plan.works if work.todo]
        paths += [given["mount"] for given in self.plan.gone.values() if given.get("mount")]
        return sorted({*paths, *self.undone, *self.unsafe})

    @property
    def packages(self) -> list[str]:
        needed = {"sfdisk": "fdisk", "chattr": "e2fsprogs"} if self.entries else {}
        needed.update(
            {f"mkfs.{entry.fs}": FILE_SYSTEMS[entry.fs].package for entry in self.entries if entry.fs in FILE_SYSTEMS}
        )
        if any(entry.quota for entry in self.entries):
            needed["xfs_quota"] = "xfsprogs"
        return sorted({package for program, package in needed.items() if not shutil.which(program, path=PATH)})

    def findings(self) -> list[findings.Finding]:
        found = list(findings.of_mounts(self.plan, self.facts))
        if self.plan.requirements:
            return found
        used = {}
        for work in self.plan.works:
            if not work.mount:
                info = os.statvfs(work.entry.mount)
                used[work.entry.mount] = ((info.f_blocks - info.f_bfree) * info.f_frsize, info.f_blocks * info.f_frsize)
        quotas = [f"{directory.path} {directory.quota // 1024} KiB" for directory in self.wanted if directory.quota]
        undone = [*self.undone, *self.unsafe]
        found += [findings.of_space(used), *findings.of_directories(undone, quotas, requested=bool(self.wanted))]
        if self.params["health"]:
            for work in self.plan.works:
                rc, out, _err = (
                    self.run(["smartctl", "--health", "--json", work.disk.path]) if smartctl() else (127, "", "")
                )
                found.append(findings.of_smart(work.key, work.disk.path, rc, out))
        return found


def roots(entries: t.Iterable[Entry]) -> t.Iterator[rows.DirectoryRow]:
    """Yield the roots of file systems with a requested owner or mode, as directories."""
    for entry in entries:
        if entry.owner or entry.group or entry.mode >= 0:
            mode = f"{entry.mode:04o}" if entry.mode >= 0 else "0755"
            yield {"path": entry.mount, "owner": entry.owner, "group": entry.group, "mode": mode}


def smartctl() -> bool:
    return shutil.which("smartctl", path=PATH) is not None


def host_facts(run: disk_facts.Run) -> dict[str, bool]:
    """Return what decides about timers, which systemd starts in no container, and about smartd, which it starts in no virtual machine."""
    virtual = run(["systemd-detect-virt", "--quiet"])[0] == 0
    return {
        "container": virtual and run(["systemd-detect-virt", "--quiet", "--container"])[0] == 0,
        "smart": not virtual and any(name.startswith(("sd", "nvme")) for name in os.listdir("/sys/block")),
        "smartctl": smartctl(),
        "evicts": os.path.exists("/etc/systemd/system/dataset-cache-evict.path"),
        "trims": os.path.lexists("/etc/systemd/system/timers.target.wants/fstrim.timer"),
    }


def done(module: AnsibleModule, storage: Storage) -> None:
    """Carry out the request, and end the module."""
    planned = module.params["state"] == "planned"
    refused = [f"{row['variable']} {row['problem']}: {row['remedy']}" for row in storage.plan.requirements]
    if refused and not planned:
        module.fail_json(msg=f"{'; '.join(refused)}. Nothing was changed.")
    result = outcome(storage)
    changes = result["changes"]
    if not planned and not module.check_mode:
        host = apply.Host(storage.run, dict(storage.plan.record), settles=module.get_bin_path("udevadm") is not None)
        try:
            for command in storage.cache:
                host.must(command)
            result["waiting"] = host.apply(storage.plan)
            storage.write_directories()
        except apply.Failed as error:
            module.fail_json(
                msg=f"{error}. What was done so far stands, and the next run goes on from there.", changes=changes
            )
    module.exit_json(
        changed=bool(changes) and not planned,
        diff=difference(storage.facts, storage.plan, changes),
        **result,
        **({"findings": storage.findings()} if planned else {}),
    )


class Outcome(t.TypedDict):
    """What the request changes, and what the rest of the role needs to know."""

    changes: list[str]
    changed_paths: list[str]
    waiting: list[str]
    mounts: list[PlannedMount]
    unmounts: list[str]
    directories: list[str]
    requirements: list[Problem]
    packages: list[str]
    host: dict[str, bool]
    cache: JsonObject
    units: dict[str, list[dict[str, str]]]


def outcome(storage: Storage) -> Outcome:
    """Return what the request changes, and what the rest of the role needs to know."""
    return {
        "changes": storage.changes,
        "changed_paths": storage.changed_paths,
        "waiting": [],
        "mounts": [
            {
                "target": work.entry.mount,
                "source": work.device or work.disk.path,
                "fstype": work.entry.fs,
                "bytes": work.disk.size,
            }
            for work in storage.plan.works
            if work.mount or work.again
        ],
        "unmounts": [given["mount"] for given in storage.plan.gone.values() if given.get("mount")],
        "directories": storage.undone,
        "requirements": storage.plan.requirements,
        "packages": storage.packages,
        "host": host_facts(storage.run),
        "cache": storage.dataset_cache,
        "units": units.drop_ins(
            [] if storage.plan.requirements else storage.entries, storage.dataset_cache.get("mount", "")
        ),
    }


def difference(facts: Facts, plan: Plan, changes: t.Sequence[str]) -> list[Diff]:
    """Return the lines of fstab before and after, and all other changes as text."""
    before, after = ("".join(f"{line.text}\n" for line in fstab.parse(text)) for text in (facts.fstab, plan.fstab))
    messages = "".join(f"{line}\n" for line in changes)
    return [
        {"before_header": "/etc/fstab", "after_header": "/etc/fstab", "before": before, "after": after},
        {"before": "", "after": messages},
    ]

#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: storage_disks
short_description: Partition, format and mount data disks without ever losing what is on one
description:
  - Brings disks, their mounts, C(/etc/fstab), directories and project quotas to what is declared, in one run.
  - A disk is written to only when it is empty (no signature, no partition, nothing but zeros in its first and last MiB), or when a wipe
    was asked for at the disk and its serial is repeated in O(confirm_wipe). One that is mounted, swap, or held by LVM, RAID, LUKS, ZFS
    or a program is never written to.
  - A disk that holds the file system and the label that are asked for is taken with its data, also when O(disks[].wipe) is set. It is
    refused where another device has the same UUID.
  - Disks are mounted by UUID, and a missing one stops no boot. A mount point cannot be written to while nothing is mounted there
    (C(chattr +i)).
  - What is about to be made is on record by its ids before the first write, so that a run that was killed is completed by the next one.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - The ids of file systems that would be made are made up, and differ from those of the run.
  diff_mode:
    support: full
options:
  state:
    description:
      - V(planned) looks and decides, refuses by RV(requirements) instead of failing, and changes nothing.
      - V(present) does it. V(absent) takes back the mounts, the lines of C(/etc/fstab) and mount points that were made; file systems and
        their data stay.
    type: str
    choices: [planned, present, absent]
    default: present
  disks:
    description: The disks. One that was here before and is not listed any more is unmounted, and stays as it is.
    type: list
    elements: dict
    default: []
    suboptions:
      id:
        description: A name in C(/dev/disk/by-id) of the whole disk. C(/dev/sda) is refused, since the next boot may call another disk so.
        type: str
      serial:
        description: The serial number, as C(lsblk --output SERIAL) has it. Either this or O(disks[].id).
        type: str
      role:
        description: Gives the mount point of a workstation's layout, V(/data), V(/data/cache) or V(/scratch).
        type: str
        choices: [data, cache, scratch]
      mount:
        description: Where it is mounted.
        type: str
      fs:
        description: The file system.
        type: str
        choices: [ext4, xfs, btrfs, vfat]
        default: ext4
      label:
        description: Its label. The last part of the mount point when left out.
        type: str
      partition:
        description: One GPT partition over all of the disk, or the file system on the whole disk.
        type: bool
        default: true
      options:
        description:
          - Mount options beside C(noatime,nofail,nosuid,nodev); C(relatime), C(suid) and C(dev) take the place of theirs.
        type: list
        elements: str
        default: []
      owner:
        description: Owner of the root of the file system. It keeps what it has when neither this, group nor mode is given.
        type: str
      group:
        description: Group of it.
        type: str
      mode:
        description: Mode of it, in quotes.
        type: raw
      wipe:
        description: Whether what is on the disk may be lost. Does nothing without the serial in O(confirm_wipe).
        type: bool
        default: false
      quota:
        description: Whether directories on it can have a quota (ext4 and XFS, project quotas).
        type: bool
        default: false
  confirm_wipe:
    description:
      - Serials, or ids of disks that tell none, of disks that may be wiped.
      - A file system that is on record as made or taken by an earlier run is confirmed by its UUID, and not by the serial of its disk.
    type: list
    elements: str
    default: []
  directories:
    description: Directories on these disks. No link in their paths is followed, and none is ever removed.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Absolute path below the mount point of a disk.
        type: str
        required: true
      owner:
        description: Owner.
        type: str
        default: root
      group:
        description: Group.
        type: str
        default: root
      mode:
        description: Mode, in quotes.
        type: raw
        default: "0755"
      setgid:
        description:
          - New files belong to the group of the directory, and a default ACL gives them the rights that O(directories[].mode) gives,
            whatever the umask of who makes them.
        type: bool
        default: false
      default_acl:
        description: Further entries of the default ACL, as V(group:ml:rwx).
        type: list
        elements: str
        default: []
      quota:
        description: What the tree may have, as V(500G) or V(2T).
        type: str
        default: "0"
  users:
    description: Users who have directories of their own for the paths in O(environment).
    type: list
    elements: str
    default: []
  environment:
    description: Paths by name of a variable. One with C({user}) stands for a directory of each of O(users).
    type: dict
    default: {}
  cache:
    description:
      - A cache before a slower disk. With the C(mode) V(directory) C(path) is made, which only root writes, and in it the sticky C(locks),
        C(requests) and C(sets) of the C(group), and RV(cache) is what C(dataset-cache) is to be configured with.
      - With V(lvmcache) an LV of LVM gets a cache, with C(vg), C(lv), C(device) in C(/dev/disk/by-id), C(size), C(cache_mode)
        (V(writethrough), or V(writeback) with C(accept_loss)). The device has to be empty. No cache is ever taken away.
    type: dict
    default: {mode: none}
  health:
    description: Ask the disks for their SMART health, for RV(findings).
    type: bool
    default: false
  planned:
    description:
      - In check mode, what earlier tasks of the run would have made. It is taken as there (C(roles/common/vars/planned.yml)).
    type: dict
    default: {}
notes:
  - Run it as root. C(sfdisk), and the program of each file system, have to be there; RV(packages) names what is missing.
  - File systems do not grow with their disk, and labels are not changed.
seealso:
  - module: rigwright.workstation.require
"""

EXAMPLES = r"""
- name: Have a data disk, and a fast one for the cache in it
  rigwright.workstation.storage_disks:
    disks:
      - {serial: ZL2A1B2C, role: data, fs: xfs}
      - {id: nvme-Samsung_SSD_990_PRO_2TB_S7KHNJ0W, role: cache}
    directories:
      - {path: /data/sets, group: ml, mode: "0775", setgid: true}

- name: Start anew with a disk that has old data
  rigwright.workstation.storage_disks:
    disks:
      - {serial: ZL2A1B2C, mount: /data, wipe: true}
    confirm_wipe: [ZL2A1B2C]
"""

RETURN = r"""
changes:
  description: What was done, or would be, in words.
  returned: always
  type: list
  elements: str
  sample: ["make ext4 labelled 'data' on /dev/sda (ZL2A1B2C, 12 TB)", mount /data]
changed_paths:
  description: C(/etc/fstab), mount points and directories that were changed, or would be.
  returned: always
  type: list
  elements: str
  sample: [/etc/fstab, /data]
mounts:
  description: What is mounted, or would be, and was not before.
  returned: always
  type: list
  elements: dict
  sample: [{target: /data, source: /dev/sda1, fstype: ext4, bytes: 12000138625024}]
unmounts:
  description: Mount points that are taken back, or would be.
  returned: always
  type: list
  elements: str
  sample: []
directories:
  description: Directories that were changed, or would be.
  returned: always
  type: list
  elements: str
  sample: [/data/datasets]
waiting:
  description: Mount points where something is due that has to wait for who uses them.
  returned: always
  type: list
  elements: str
  sample: []
requirements:
  description: What speaks against the request, as M(rigwright.workstation.require) takes it.
  returned: always
  type: list
  elements: dict
  sample: []
packages:
  description: Debian packages of programs that the request needs and that are not there.
  returned: always
  type: list
  elements: str
  sample: [xfsprogs]
host:
  description:
    - Whether it is a C(container), has disks that smartd can watch (C(smart)), has C(smartctl), has a cache of datasets (C(evicts)),
      and whether its own links enable C(fstrim.timer) (C(trims)).
  returned: always
  type: dict
  sample: {container: false, smart: true, smartctl: true, evicts: false, trims: true}
cache:
  description: The configuration of C(dataset-cache), empty where none is asked for.
  returned: always
  type: dict
  sample: {cache: /data/cache/sets, mount: /data/cache, group: ml, sources: [/data/sets]}
units:
  description: Drop-ins of systemd that mount a disk which comes up after the boot, as M(rigwright.workstation.config_files) takes them.
  returned: always
  type: dict
  sample: {directories: [], files: []}
findings:
  description: What was seen, as M(rigwright.workstation.finding) takes it.
  returned: when O(state=planned)
  type: list
  elements: dict
  sample: [{id: storage.disks, status: pass, evidence: "/data: ext4 UUID=... on ZL2A1B2C", remedy: ""}]
"""

import dataclasses
import grp
import json
import os
import pwd
import shutil
import typing as t
import uuid

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import UnsafePath
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import Busy, host_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import (
    acl,
    apply,
    directories,
    findings,
    fstab,
    lvm_cache,
    rows,
    units,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import dataset_cache as storage_cache
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import facts as look
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.disks import find
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.plan import Facts, Given, Plan, plan
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
    """The id of a user or group; ``of alice`` is her own group."""
    if tag == acl.USER:
        return pwd.getpwnam(name).pw_uid
    return pwd.getpwnam(name[3:]).pw_gid if name.startswith("of ") else grp.getgrnam(name).gr_gid


def exists(group: str) -> bool:
    try:
        grp.getgrnam(group)
    except KeyError:
        return False
    return True


def unknown(wanted: t.Iterable[Directory], groups: t.Collection[str]) -> set[tuple[int, str]]:
    """Users and groups that are not there, without groups that earlier tasks make."""
    missing = set()
    for tag, name in {named for directory in wanted for named in directories.names(directory)}:
        try:
            number(tag, name)
        except KeyError:
            if tag == acl.USER or name not in groups:
                missing.add((tag, name))
    return missing


class Storage:
    """What is asked for, what is there, and what follows from it."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        params = module.params
        asked = {} if params["state"] == "absent" else params
        disks, odd = rows.read_rows("storage_disks", asked.get("disks", []), rows.DISK)
        listed, odd_too = rows.read_rows("storage_directories", asked.get("directories", []), rows.DIRECTORY)
        self.entries, refused = read_entries(disks)
        refused = [*odd, *odd_too, *refused]
        own = [*roots(self.entries), *listed]
        users, environment = asked.get("users", []), asked.get("environment", {})
        self.wanted, wrong = read_directories(own, users, environment, self.entries)
        cache = asked.get("cache", {})
        wrong += storage_cache.requirements(cache, self.entries)
        self.dataset_cache = {} if wrong else storage_cache.configuration(cache, self.entries)
        if self.dataset_cache:
            asked_for = {one.path: one for one in self.wanted}
            for one in storage_cache.directories(cache):
                # Who may write there is no matter of taste.
                quota = asked_for[one.path].quota if one.path in asked_for else 0
                asked_for[one.path] = dataclasses.replace(one, quota=quota)
            self.wanted = sorted(asked_for.values(), key=lambda one: (one.path.count("/"), one.path))
        self.record = self.read_record()
        named = [entry for entry in self.entries if bool(entry.id) != bool(entry.serial)]
        self.facts = look.facts(self.run, named, self.record)
        self.plan = plan(named, asked.get("confirm_wipe", []), self.facts, lambda: str(uuid.uuid4()))
        sizes = {work.entry.mount: work.disk.size for work in self.plan.works}
        self.groups = params["planned"].get("groups") or [] if module.check_mode else []
        missing = unknown(self.wanted, self.groups)
        seen = self.plan.requirements
        self.plan.requirements = [
            *refused,
            *wrong,
            *seen,
            *directories.requirements(self.wanted, self.entries, sizes, missing),
        ]
        self.cache = self.cache_commands(cache)
        self.linked: list[str] = []
        self.states = {} if self.plan.requirements else self.read_directories()
        self.targets = {} if self.plan.requirements else self.target_states()
        self.loose = self.loose_sets()

    def run(self, command: t.Sequence[str], data: str | None = None) -> tuple[int, str, str]:
        words = [self.module.get_bin_path(command[0]) or command[0], *command[1:]]
        rc, out, err = self.module.run_command(words, data=data, environ_update={"LC_ALL": "C.UTF-8"})
        return rc, out, err

    def read_record(self) -> dict[str, Given]:
        text = look.text_of(apply.RECORD)
        try:
            found: dict[str, Given] = json.loads(text) if text else {}
        except ValueError as error:
            self.module.fail_json(
                msg=f"{apply.RECORD} is damaged ({error}): restore it, or remove it. Nothing was changed."
            )
        return found

    def cache_commands(self, asked: t.Mapping[str, t.Any]) -> list[list[str]]:
        """What an LVM cache needs; what speaks against it goes to the requirements."""
        if asked.get("mode") != "lvmcache":
            return []
        commands: list[list[str]] = []
        refused = list(lvm_cache.requirements(asked))
        if not refused:
            lvs, pvs = (lvm_cache.rows(self.run(words)[1], words[0][:-1]) for words in (lvm_cache.LVS, lvm_cache.PVS))
            name = os.path.basename(asked["device"])
            disks = [look.looked_into(self.run, disk) for disk in find(self.facts.disks, name, "")]
            refused, commands = lvm_cache.plan(asked, lvs, pvs, disks)
        self.plan.requirements += refused
        return commands

    # --- Directories ---

    def limits(self, entry: Entry) -> dict[int, int]:
        quota = ["xfs_quota", "-x", *([] if entry.fs == "xfs" else ["-f"]), "-c", "report -p -b -n -N", entry.mount]
        return directories.parse_limits(self.run(quota)[1])

    def read_directories(self) -> dict[str, directories.State | None]:
        """Those on disks that are mounted now and stay so."""
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
                {
                    "ok": False,
                    "variable": "storage_directories",
                    "problem": f"has {path}, and a part of it is a link or no directory",
                    "remedy": "name the path that it leads to, or take it away",
                }
            )
        return states

    def loose_sets(self) -> list[str]:
        """What an older release left in the cache of datasets so that users can exchange it, and the tag that it lacks."""
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
        """The id of a user or group; one that nobody has for a group that check mode only plans."""
        return 2**32 - 2 if tag != acl.USER and name in self.groups and not exists(name) else number(tag, name)

    @property
    def undone(self) -> list[str]:
        """Paths of directories that are not as they are to be."""
        return [path for path, target in self.targets.items() if self.differs(path, target)]

    def differs(self, path: str, target: directories.State) -> bool:
        had = self.states.get(path)
        if had and not target.limit and had.project:
            # A limit of the parent's project is not this directory's.
            parents = [one.project for other, one in self.targets.items() if path.startswith(f"{other}/")]
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

    # --- What is told ---

    @property
    def changes(self) -> list[str]:
        told = [what for work in self.plan.works for what in work.todo]
        told += [f"take back {given.get('mount') or key}" for key, given in self.plan.gone.items()]
        told += [" ".join(command) for command in self.cache]
        told += ["write /etc/fstab"] if self.plan.fstab != self.facts.fstab else []
        told += [f"{path}: owner, mode, ACL or quota" for path in self.undone]
        return told + [f"{path}: sticky bit or tag" for path in self.loose]

    @property
    def changed_paths(self) -> list[str]:
        paths = ["/etc/fstab"] if self.plan.fstab != self.facts.fstab else []
        paths += [work.entry.mount for work in self.plan.works if work.todo]
        paths += [given["mount"] for given in self.plan.gone.values() if given.get("mount")]
        return sorted({*paths, *self.undone, *self.loose})

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
        told = list(findings.of_mounts(self.plan, self.facts))
        if self.plan.requirements:
            return told
        used = {}
        for work in self.plan.works:
            if not work.mount:
                info = os.statvfs(work.entry.mount)
                used[work.entry.mount] = ((info.f_blocks - info.f_bfree) * info.f_frsize, info.f_blocks * info.f_frsize)
        quotas = [f"{directory.path} {directory.quota // 1024} KiB" for directory in self.wanted if directory.quota]
        undone = [*self.undone, *self.loose]
        told += [findings.of_space(used), *findings.of_directories(undone, quotas, asked=bool(self.wanted))]
        if self.module.params["health"]:
            for work in self.plan.works:
                rc, out, _err = (
                    self.run(["smartctl", "--health", "--json", work.disk.path]) if smartctl() else (127, "", "")
                )
                told.append(findings.of_smart(work.key, work.disk.path, rc, out))
        return told


def roots(entries: t.Iterable[Entry]) -> t.Iterator[dict[str, t.Any]]:
    """The roots of the file systems whose owner or mode is asked for, as directories."""
    for entry in entries:
        if entry.owner or entry.group or entry.mode >= 0:
            mode = f"{entry.mode:04o}" if entry.mode >= 0 else "0755"
            yield {"path": entry.mount, "owner": entry.owner, "group": entry.group, "mode": mode}


def smartctl() -> bool:
    return shutil.which("smartctl", path=PATH) is not None


def host_words(run: look.Run) -> dict[str, bool]:
    """What decides about timers, which systemd starts in no container, and smartd, which it starts in no virtual machine either."""
    virtual = run(["systemd-detect-virt", "--quiet"])[0] == 0
    return {
        "container": virtual and run(["systemd-detect-virt", "--quiet", "--container"])[0] == 0,
        "smart": not virtual and any(name.startswith(("sd", "nvme")) for name in os.listdir("/sys/block")),
        "smartctl": smartctl(),
        "evicts": os.path.exists("/etc/systemd/system/dataset-cache-evict.path"),
        "trims": os.path.lexists("/etc/systemd/system/timers.target.wants/fstrim.timer"),
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["planned", "present", "absent"], "default": "present"},
            # Their rows are read in _storage/rows.py, so that all that is wrong is told at once.
            "disks": {"type": "list", "elements": "dict", "default": []},
            "confirm_wipe": {"type": "list", "elements": "str", "default": []},
            "directories": {"type": "list", "elements": "dict", "default": []},
            "users": {"type": "list", "elements": "str", "default": []},
            "environment": {"type": "dict", "default": {}},
            "cache": {"type": "dict", "default": {"mode": "none"}},
            "health": {"type": "bool", "default": False},
            "planned": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    planned = module.params["state"] == "planned"
    if planned or module.check_mode:
        done(module, Storage(module))
    try:
        # One run at a time: from what it sees to what it has recorded.
        with host_lock("storage_disks"):
            done(module, Storage(module))
    except Busy as error:
        module.fail_json(msg=f"{error}. Nothing was changed.")


def done(module: AnsibleModule, storage: Storage) -> None:
    """Do what is asked for, and end."""
    planned = module.params["state"] == "planned"
    refused = [f"{row['variable']} {row['problem']}: {row['remedy']}" for row in storage.plan.requirements]
    if refused and not planned:
        module.fail_json(msg=f"{'; '.join(refused)}. Nothing was changed.")
    changes, paths, undone, waiting = storage.changes, storage.changed_paths, storage.undone, []
    if not planned and not module.check_mode:
        host = apply.Host(storage.run, dict(storage.record), settles=module.get_bin_path("udevadm") is not None)
        try:
            for command in storage.cache:
                host.must(command)
            waiting = host.apply(storage.plan)
            storage.write_directories()
        except apply.Failed as error:
            module.fail_json(
                msg=f"{error}. What was done so far stands, and the next run goes on from there.", changes=changes
            )
    module.exit_json(
        changed=bool(changes) and not planned,
        changes=changes,
        changed_paths=paths,
        waiting=waiting,
        mounts=[
            {
                "target": work.entry.mount,
                "source": work.device or work.disk.path,
                "fstype": work.entry.fs,
                "bytes": work.disk.size,
            }
            for work in storage.plan.works
            if work.mount or work.again
        ],
        unmounts=[given["mount"] for given in storage.plan.gone.values() if given.get("mount")],
        directories=undone,
        requirements=storage.plan.requirements,
        packages=storage.packages,
        host=host_words(storage.run),
        cache=storage.dataset_cache,
        units=units.drop_ins([] if refused else storage.entries, storage.dataset_cache.get("mount", "")),
        diff=difference(storage.facts, storage.plan, changes),
        **({"findings": storage.findings()} if planned else {}),
    )


def difference(facts: Facts, made: Plan, changes: t.Sequence[str]) -> list[dict[str, str]]:
    """The lines of fstab before and after, and the rest in words."""
    before, after = ("".join(f"{line.text}\n" for line in fstab.parse(text)) for text in (facts.fstab, made.fstab))
    words = "".join(f"{line}\n" for line in changes)
    return [
        {"before_header": "/etc/fstab", "after_header": "/etc/fstab", "before": before, "after": after},
        {"before": "", "after": words},
    ]


if __name__ == "__main__":
    main()

#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: docker_plan
short_description: Plan docker on a host, so that what runs keeps running
description:
  - Reads what is on the host (packages, C(daemon.json), disks, the running docker and its containers) and returns what the role
    C(docker) has to do, and why it may not. Changes nothing itself.
  - C(daemon.json) is the deep merge of what the host has of its own, what the options below say, O(daemon_options), and the parts that
    other roles have put into C(/var/lib/rigwright_docker/parts). What a person or a program changes in it later counts as the host's own.
  - dockerd itself is asked whether it takes the result. From docker 23 on by C(dockerd --validate), and an older one by starting it as a
    user who may not, which it says only after it has read its options.
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
  edition:
    description:
      - The distribution's V(docker.io) or Docker's V(docker-ce). V(auto) takes what is there, and else V(docker.io).
    type: str
    choices: [auto, docker.io, docker-ce]
    default: auto
  version:
    description:
      - Beginning of the version to keep to, such as V(28.5). Empty takes what there is.
    type: str
    default: ""
  hold:
    description:
      - Whether the packages are kept from being upgraded.
    type: bool
    default: false
  packages:
    description:
      - The packages of each edition on this platform.
    type: dict
    required: true
  repository:
    description:
      - Docker's repository for this platform.
    type: dict
    default: {}
    suboptions:
      url:
        description: Address of the repository.
        type: str
      key_url:
        description: Address of its key.
        type: str
      fingerprints:
        description: Full fingerprints of the keys that the file has to hold, and no others.
        type: list
        elements: str
      suite:
        description: Codename of the distribution.
        type: str
      architecture:
        description: apt's name of the machine.
        type: str
  users:
    description:
      - Users that become members of the group C(docker), which makes them as good as root.
    type: list
    elements: str
    default: []
  data_root:
    description:
      - Where docker keeps its data. Empty leaves it where it is.
    type: str
    default: ""
  containerd_root:
    description:
      - Where containerd keeps its data. Empty takes the directory C(containerd) beside O(data_root), if that is given.
    type: str
    default: ""
  free_bytes:
    description:
      - Room that a new place for data needs, in bytes.
    type: int
    default: 5368709120
  log_driver:
    description:
      - Log driver of containers. Empty leaves it as it is.
    type: str
    default: local
  log_max_size:
    description:
      - Size at which a container's log begins a new file, for the drivers V(local) and V(json-file).
    type: str
    default: 50m
  log_max_files:
    description:
      - How many files a container's log has.
    type: int
    default: 5
  live_restore:
    description:
      - Whether containers keep running while docker is stopped.
    type: bool
    default: true
  bind_ip:
    description:
      - Address that published ports listen on where none is given.
    type: str
    default: 127.0.0.1
  address_pools:
    description:
      - Where docker takes the addresses of its networks from.
    type: list
    elements: dict
    default: []
    suboptions:
      base:
        description: Network that is cut into smaller ones.
        type: str
        required: true
      size:
        description: Prefix length of these.
        type: int
        required: true
  registry_mirrors:
    description:
      - Mirrors of Docker Hub.
    type: list
    elements: str
    default: []
  shm_size:
    description:
      - Size of C(/dev/shm) in containers that ask for none.
    type: str
    default: 1g
  daemon_options:
    description:
      - Further options of C(daemon.json).
    type: dict
    default: {}
  coming_parts:
    description:
      - Parts of other roles as this run leaves them, by the name of the role; an empty one goes. Only check mode needs it, since there they
        are not what lies in C(/var/lib/rigwright_docker/parts).
    type: dict
    default: {}
  allow_disruption:
    description:
      - Whether docker may be restarted where containers would end, or lose their GPU, and stored data be left behind.
    type: bool
    default: false
  planned:
    description:
      - In check mode, what earlier tasks of the run would have made. It is taken as there (C(roles/common/vars/planned.yml)).
    type: dict
    default: {}
notes:
  - Run it as root.
seealso:
  - module: rigwright.workstation.systemd_units
  - module: rigwright.workstation.repository_key
"""

EXAMPLES = r"""
- name: Plan docker with its data on another disk
  rigwright.workstation.docker_plan:
    packages: {docker.io: [docker.io], docker-ce: [docker-ce, docker-ce-cli, containerd.io]}
    data_root: /data/docker
  register: plan

- name: Refuse a disk that is full or read-only
  rigwright.workstation.require:
    that: "{{ plan.requirements }}"
"""

RETURN = r"""
edition:
  description: The edition.
  returned: success
  type: str
  sample: docker.io
installed:
  description: Whether it is installed.
  returned: success
  type: bool
requirements:
  description: What is not as it has to be, as M(rigwright.workstation.require) takes it. With any, the plan is refused.
  returned: success
  type: list
  elements: dict
  sample: [{ok: false, variable: docker_data_root, problem: "is /data/docker, on /data, which is read-only", remedy: "mount ..."}]
findings:
  description: What is left to do, as M(rigwright.workstation.finding) takes it.
  returned: success
  type: list
  elements: dict
  sample: [{id: docker.group, status: warn, evidence: "without a password these are as good as root: alice", remedy: "keep ..."}]
install:
  description: Packages to install, as C(apt) takes them.
  returned: success
  type: list
  elements: str
  sample: [docker.io, docker-cli]
hold:
  description: Packages to put on hold.
  returned: success
  type: list
  elements: str
  sample: []
unhold:
  description: Packages to take off hold, which the role had put there.
  returned: success
  type: list
  elements: str
  sample: []
repository:
  description: Docker's repository, if it is needed and the host does not have it by itself.
  returned: success
  type: dict
  sample: {}
key:
  description: The keys of its key file as one armor block, if it holds the right keys and nothing else.
  returned: success
  type: str
  sample: ""
package_files:
  description: Files that have to be in place before the packages, as M(rigwright.workstation.config_files) takes them.
  returned: success
  type: list
  elements: dict
  sample: [{path: /etc/apt/preferences.d/rigwright-docker, content: "Package: ..."}]
package_files_due:
  description: Whether any of them is not as it should be.
  returned: success
  type: bool
directories:
  description: The directories that the files need.
  returned: success
  type: list
  elements: dict
  sample: [{path: /etc/docker}]
files:
  description: The configuration files.
  returned: success
  type: list
  elements: dict
  sample: [{path: /etc/docker/daemon.json, content: "{...}"}]
files_afterwards:
  description:
    - The same files without options that are gone. In RV(files) these stand as nothing, since dockerd keeps on a reload what it no longer
      finds. Empty when there are none.
  returned: success
  type: list
  elements: dict
  sample: []
groups:
  description: The group docker with its members, as M(rigwright.workstation.group_members) takes it. Empty when it is as it should be.
  returned: success
  type: list
  elements: dict
  sample: [{name: docker, system: true, members: [alice], append: false}]
units:
  description: The units, as M(rigwright.workstation.systemd_units) takes them.
  returned: success
  type: list
  elements: dict
  sample: [{name: docker.service, restart_on: [/var/lib/rigwright_docker/restart.json], reload_on: [/etc/docker/daemon.json]}]
secret:
  description: Whether daemon.json is for root alone, because it is so already or has a password.
  returned: always
  type: bool
restart_waits:
  description: Why a restart, if one is due, is not done. Empty when it may be done.
  returned: success
  type: str
  sample: "containers use a GPU: train"
options:
  description: What C(daemon.json) is to say.
  returned: success
  type: dict
  sample: {live-restore: true}
"""

import contextlib
import dataclasses
import grp
import json
import os
import pwd
import re
import tempfile
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import STATUS, parse_status
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.sources import (
    SOURCES_LIST,
    SOURCES_PARTS,
    parse,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import (
    STORE,
    Record,
    Store,
    read_state,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.openpgp import Invalid, armored, parse_keys
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import plan as docker
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.api import ask, running_containers
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.options import (
    Unreadable,
    dump,
    parse_options,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.table import RULES
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import is_within
from ansible_collections.rigwright.workstation.plugins.module_utils._system.systemd import parse_show, parse_time

ROOT = "/"
UNIT = "docker.service"
PACKAGE_SET = "docker_packages"
NOBODY = "65534"


def read_daemon(started: float, names: t.Iterable[str]) -> docker.Daemon:
    """What a docker that runs says of itself.

    :param names: what its data root may be called; docker itself tells where links lead.
    """
    try:
        info = ask("/info")
        inspected = running_containers()
    except (OSError, ValueError):
        return docker.Daemon(answers=False, started=started)
    running, gpu = docker.describe_containers(inspected)
    root = info["DockerRootDir"]
    return docker.Daemon(
        root=next((name for name in names if os.path.realpath(name) == os.path.realpath(root)), root),
        live_restore=bool(info.get("LiveRestoreEnabled")),
        swarm=(info.get("Swarm") or {}).get("LocalNodeState") == "active",
        stored=info["Containers"] + info["Images"],
        running=running,
        gpu=gpu,
        started=started,
    )


def read_left(tree: Tree, packages: t.Iterable[str], config: str | None) -> docker.Left | None:
    """What a docker that is installed and does not run has left behind."""
    if not {docker.ARCHIVE, docker.DOCKER_CE} & set(packages):
        return None
    try:
        root = parse_options(config).get("data-root", docker.DATA_ROOT)
    except Unreadable:  # refused by itself
        root = docker.DATA_ROOT
    images = (f"{root}/image/{driver}/imagedb/content/sha256" for driver in tree.names(f"{root}/image"))
    stored = sum(len(tree.names(folder)) for folder in (f"{root}/containers", *images))
    return docker.Left(root, stored, count_shims())


def count_shims() -> int:
    """How many containers of root's docker run, by the processes that containerd keeps beside them."""
    found = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        # A process may have ended in between.
        with contextlib.suppress(OSError):
            words = Tree("/").text(f"/proc/{pid}/cmdline").split("\0")
            shim = "containerd-shim" in words[0] and "moby" in words
            found += shim and os.stat(f"/proc/{pid}").st_uid == 0
    return found


def read_available(module: AnsibleModule, package: str) -> list[str]:
    """The versions that apt knows of a package."""
    _rc, out, _err = module.run_command(["apt-cache", "madison", package])
    return [line.split("|")[1].strip() for line in out.splitlines() if line.count("|") == 2]


def read_units(module: AnsibleModule) -> dict[str, dict[str, str]]:
    """What systemd says of docker's units; of one that is not there, that it is inactive."""
    properties = "Id,Names,ActiveState,ActiveEnterTimestamp,ExecStart,UnitFileState"
    _rc, out, _err = module.run_command(
        ["systemctl", "show", f"--property={properties}", *docker.UNITS],
        check_rc=True,
        environ_update={"LC_ALL": "C.UTF-8", "TZ": "UTC"},
    )
    shown = parse_show(out, docker.UNITS)
    return {name: {key: values[0] for key, values in found.items()} for name, found in shown.items()}


def read_service(shown: t.Mapping[str, str]) -> tuple[bool, float, list[str]]:
    """Whether docker runs, since when, and the arguments that its unit gives to dockerd."""
    found = re.search(r"argv\[\]=\S+ (.*?) ;", shown.get("ExecStart", ""))
    # What a variable stands for is not known here.
    arguments = [word for word in found[1].split() if not word.startswith("$")] if found else []
    return shown.get("ActiveState") == "active", parse_time(shown.get("ActiveEnterTimestamp", "")), arguments


def refusal(module: AnsibleModule, program: str, version: tuple[int, ...], arguments: list[str], text: str) -> str:
    """What dockerd says against a daemon.json, empty when it takes it."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o711)  # noqa: S103 - a user without rights reads the file in it
        path = os.path.join(directory, "daemon.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o644)
        command = [program, *arguments, f"--config-file={path}"]
        if version >= docker.VALIDATE_SINCE:
            rc, out, err = module.run_command([*command, "--validate"])
            taken = rc == 0
        else:
            # dockerd reads its options, and only then finds that it is not root.
            drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            rc, out, err = module.run_command([*drop, *command])
            taken = "needs to be started with root" in err
        words = (err.strip() or out.strip()).replace(path, docker.DAEMON_JSON)
    return "" if taken else words.splitlines()[-1] if words else f"it ends with {rc}"


def read_place(path: str, mounts: str, coming: t.Sequence[t.Mapping[str, t.Any]]) -> docker.Place:
    """The file system that a directory is, or will be, on.

    :param coming: mounts that earlier tasks would make, in check mode.
    """
    planned = [row for row in coming if is_within(path, row["target"])]
    if planned:
        last = max(planned, key=lambda row: len(row["target"]))
        return docker.Place(mount=last["target"], kind=last["fstype"], free_bytes=last["bytes"])
    there = path
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    system = os.statvfs(os.path.realpath(there))
    return docker.place_of(
        os.path.realpath(there),
        mounts,
        read_only=bool(system.f_flag & os.ST_RDONLY),
        no_exec=bool(system.f_flag & os.ST_NOEXEC),
        free_bytes=system.f_bavail * system.f_frsize,
        file=not os.path.isdir(there),
    )


def read_json(tree: Tree, path: str) -> t.Any:
    """:raises ValueError: the role's own record is damaged."""
    if not tree.exists(path):
        return None
    try:
        return json.loads(tree.text(path))
    except ValueError as error:
        raise ValueError(
            f"{path}, which the role docker wrote itself, is damaged ({error}): restore it, or remove it,"
            f" and what {docker.DAEMON_JSON} says now counts as the host's own"
        ) from error


def read_memory(tree: Tree) -> docker.Memory | None:
    found = read_json(tree, docker.MEMORY)
    if found is None:
        return None
    return docker.Memory(found["host"], found["written"], tuple(found["users"]), tuple(found["held"]))


def read_sources(tree: Tree, url: str) -> list[str]:
    """The host's own files that give apt a repository."""
    paths = [SOURCES_LIST, *(f"{SOURCES_PARTS}/{name}" for name in tree.names(SOURCES_PARTS))]
    return [
        path
        for path in paths
        if path != docker.SOURCE and path.endswith((".list", ".sources"))
        for block in parse(path, tree.text(path))
        if block.entry and url and url.rstrip("/") in [uri.rstrip("/") for uri in block.entry.uris]
    ]


def is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def read_group() -> tuple[str, ...] | None:
    try:
        return tuple(sorted(grp.getgrnam("docker").gr_mem))
    except KeyError:
        return None


def original_text(records: t.Mapping[str, Record], path: str) -> str | None:
    """What a file said before config_files put the role's in its place."""
    content = records[path].original.content if path in records else None
    return None if content is None else content.decode("utf-8", errors="replace")


def read_parts(tree: Tree) -> dict[str, str]:
    paths = sorted(f"{docker.PARTS}/{name}" for name in tree.names(docker.PARTS))
    return {path: tree.text(path) for path in paths if path.endswith(".json")}


def read_host(
    params: t.Mapping[str, t.Any], daemon: docker.Daemon | None, units: t.Mapping[str, t.Mapping[str, str]]
) -> docker.Host:
    """:raises ValueError: the role's own record is damaged."""
    tree = Tree(ROOT)
    records = Store("docker", tree.at(STORE)).load()
    state = read_state(tree.at(docker.DAEMON_JSON))
    there = state.kind == "file"
    config = tree.text(docker.DAEMON_JSON) if there else None
    packages = parse_status(tree.text(STATUS))
    mounts = Tree("/").text("/proc/self/mountinfo")
    coming = params.get("planned", {}).get("mounts") or []
    brought = read_json(tree, docker.BROUGHT)
    # A path that is none is refused by itself.
    paths = [path for path in docker.roots(params).values() if path.startswith("/")]
    containerd_config = tree.text(docker.CONTAINERD_CONFIG) if tree.exists(docker.CONTAINERD_CONFIG) else None
    return docker.Host(
        packages=packages,
        config=config,
        config_mode=state.mode if there else None,
        config_kind="" if state.kind in ("file", "missing") else state.kind,
        original=original_text(records, docker.DAEMON_JSON),
        settled=not (there and daemon and os.lstat(tree.at(docker.DAEMON_JSON)).st_ctime >= daemon.started),
        memory=read_memory(tree),
        parts={**read_parts(tree), **docker.coming_parts(params["coming_parts"])},
        containerd_config=containerd_config,
        containerd_stored=len(tree.names(docker.layers_of(containerd_config))),
        containerd_original=original_text(records, docker.CONTAINERD_CONFIG),
        containerd_managed=docker.CONTAINERD_CONFIG in records,
        places={path: read_place(path, mounts, coming) for path in paths},
        networks=docker.parse_routes(Tree("/").text("/proc/net/route")),
        unknown_users=[user for user in params["users"] if not is_user(user)],
        group=read_group(),
        daemon=daemon,
        left=None if daemon else read_left(tree, packages, config),
        sources=read_sources(tree, params["repository"].get("url") or ""),
        firewalled=RULES in Store("firewall", tree.at(STORE)).load(),
        brought=None if brought is None else tuple(brought),
        idle=[
            name
            for name, shown in units.items()
            if shown.get("ActiveState") != "active" and shown.get("UnitFileState") != "enabled"
        ],
    )


def read_key(wanted: t.Sequence[str]) -> str:
    """The keys of the key file, written anew, if it holds these and nothing else."""
    try:
        keys = parse_keys(Tree(ROOT).bytes(docker.KEY))
    except Invalid:
        return ""
    right = sorted(keys.fingerprints) == sorted(one.replace(" ", "").upper() for one in wanted)
    return armored(keys.packets) if right else ""


def package_files_due(plan: docker.Plan, key: str) -> bool:
    """Whether the set of files that goes before the packages is another one than lies there."""
    wanted = {entry["path"]: entry["content"] for entry in plan.package_files}
    if plan.repository:
        wanted[docker.KEY] = key
    managed = Store(PACKAGE_SET, Tree(ROOT).at(STORE)).load()
    files = {path for path, record in managed.items() if record.written}
    return files != set(wanted) or any(Tree(ROOT).text(path) != content for path, content in wanted.items())


def main() -> None:
    pool = {"base": {"type": "str", "required": True}, "size": {"type": "int", "required": True}}
    repository = {
        "url": {"type": "str"},
        "key_url": {"type": "str", "no_log": False},
        "fingerprints": {"type": "list", "elements": "str"},
        "suite": {"type": "str"},
        "architecture": {"type": "str"},
    }
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "edition": {
                "type": "str",
                "choices": [docker.AUTO, docker.ARCHIVE, docker.DOCKER_CE],
                "default": docker.AUTO,
            },
            "version": {"type": "str", "default": ""},
            "hold": {"type": "bool", "default": False},
            "packages": {"type": "dict", "required": True},
            "repository": {"type": "dict", "default": {}, "options": repository},
            "users": {"type": "list", "elements": "str", "default": []},
            "data_root": {"type": "str", "default": ""},
            "containerd_root": {"type": "str", "default": ""},
            "free_bytes": {"type": "int", "default": 5368709120},
            "log_driver": {"type": "str", "default": "local"},
            "log_max_size": {"type": "str", "default": "50m"},
            "log_max_files": {"type": "int", "default": 5},
            "live_restore": {"type": "bool", "default": True},
            "bind_ip": {"type": "str", "default": "127.0.0.1"},
            "address_pools": {"type": "list", "elements": "dict", "default": [], "options": pool},
            "registry_mirrors": {"type": "list", "elements": "str", "default": []},
            "shm_size": {"type": "str", "default": "1g"},
            "daemon_options": {"type": "dict", "default": {}},
            "coming_parts": {"type": "dict", "default": {}},
            "allow_disruption": {"type": "bool", "default": False},
            "planned": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    params = {**module.params, "planned": module.params["planned"] if module.check_mode else {}}
    units = read_units(module)
    active, started, arguments = read_service(units[UNIT])
    names = [*docker.roots(params).values(), docker.DATA_ROOT]
    try:
        host = read_host(params, read_daemon(started, names) if active else None, units)
    except (ValueError, KeyError, TypeError) as error:
        # The task does not show what fails in it (no_log), and the role says what is refused.
        damaged = docker.Plan(requirements=[docker.fault(docker.FOLDER, "is damaged", str(error))])
        module.exit_json(changed=False, **dataclasses.asdict(damaged), installed=False, key="", package_files_due=False)
    plan = docker.plan_present(host, params) if params["state"] == "present" else docker.plan_absent(host, params)
    if any("=" in name for name in plan.install) and not plan.requirements:
        available = read_available(module, plan.edition)
        plan = docker.plan_present(dataclasses.replace(host, available=available), params)
    program = docker.PROGRAMS[plan.edition]
    if plan.options and not plan.requirements and os.path.exists(program):
        words = refusal(module, program, docker.version_of(host, plan.edition), arguments, dump(plan.options))
        plan.requirements += docker.refusal_faults(words, params)
    key = read_key(plan.repository["fingerprints"]) if plan.repository else ""
    module.exit_json(
        changed=False,
        **dataclasses.asdict(plan),
        installed=plan.edition in host.packages,
        key=key,
        package_files_due=package_files_due(plan, key),
    )


if __name__ == "__main__":
    main()

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read docker on a host: its files, its units, its disks, and the running daemon. Nothing is decided or changed here."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import re
import tempfile
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import STATUS, parse_status
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.sources import (
    SOURCES_LIST,
    SOURCES_PARTS,
    parse,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import (
    STORE,
    Record,
    Store,
    read_state,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import model as docker
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.api import ask, running_containers
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.options import (
    Unreadable,
    parse_options,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import (
    Mount,
    is_within,
    parse_mountinfo,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system.systemd import parse_time, show

RunCommand = t.Callable[..., t.Any]

ROOT = "/"
UNIT = "docker.service"
NOBODY = "65534"


def place_of(path: str, mounts: t.Iterable[Mount], **found: t.Any) -> docker.Place:
    """The file system of a path by /proc/self/mountinfo (proc(5)); *found* is what the file system says of itself."""
    on = max(
        (mount for mount in mounts if is_within(path, mount.target)),
        key=lambda mount: len(mount.target),
        default=Mount("/"),
    )
    return docker.Place(mount=on.target, kind=on.fstype, **found)


def parse_routes(text: str) -> dict[str, str]:
    """The networks of /proc/net/route with their interfaces, without the default route and docker's own bridges."""
    found = {}
    for line in text.splitlines()[1:]:
        interface, destination, *_rest = fields = line.split()
        own = re.fullmatch(r"docker0|docker_gwbridge|br-[0-9a-f]{12}", interface)
        mask = int.from_bytes(bytes.fromhex(fields[7]), "little")
        if mask and not own:
            address = ipaddress.IPv4Address(int.from_bytes(bytes.fromhex(destination), "little"))
            found[f"{address}/{bin(mask).count('1')}"] = interface
    return found


def describe_containers(inspected: t.Iterable[t.Mapping[str, t.Any]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of running containers, and of those that have a GPU, from what the API says of each."""
    running, gpu = [], []
    for one in inspected:
        name = str(one.get("Name", one.get("Id", ""))).lstrip("/")
        settings = one.get("HostConfig") or {}
        requests = settings.get("DeviceRequests") or []
        devices = [str(device.get("PathOnHost", "")) for device in settings.get("Devices") or []]
        running.append(name)
        if requests or "nvidia" in str(settings.get("Runtime")) or any("/nvidia" in path for path in devices):
            gpu.append(name)
    return tuple(sorted(running)), tuple(sorted(gpu))


def read_daemon(started: float, names: t.Iterable[str]) -> docker.Daemon:
    """What a docker that runs says of itself.

    :param names: what its data root may be called; docker itself tells where links lead.
    """
    try:
        info = ask("/info")
        inspected = running_containers()
    except (OSError, ValueError):
        return docker.Daemon(answers=False, started=started)
    running, gpu = describe_containers(inspected)
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


def read_available(run: RunCommand, package: str) -> list[str]:
    """The versions that apt knows of a package."""
    _rc, out, _err = run(["apt-cache", "madison", package])
    return [line.split("|")[1].strip() for line in out.splitlines() if line.count("|") == 2]


def read_units(run: RunCommand) -> dict[str, dict[str, str]]:
    """Read docker's units from systemd; a unit that does not exist is inactive."""
    shown = show(run, docker.UNITS, ("ActiveState", "ActiveEnterTimestamp", "ExecStart", "UnitFileState"))
    return {name: {key: values[0] for key, values in properties.items()} for name, properties in shown.items()}


def read_service(shown: t.Mapping[str, str]) -> tuple[bool, float, list[str]]:
    """Whether docker runs, since when, and the arguments that its unit gives to dockerd."""
    found = re.search(r"argv\[\]=\S+ (.*?) ;", shown.get("ExecStart", ""))
    # What a variable stands for is not known here.
    arguments = [word for word in found[1].split() if not word.startswith("$")] if found else []
    return shown.get("ActiveState") == "active", parse_time(shown.get("ActiveEnterTimestamp", "")), arguments


def refusal(run: RunCommand, program: str, version: tuple[int, ...], arguments: list[str], text: str) -> str:
    """What dockerd says against a daemon.json, empty when it takes it."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o711)  # noqa: S103 - a user without rights reads the file in it
        path = os.path.join(directory, "daemon.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o644)
        command = [program, *arguments, f"--config-file={path}"]
        if version >= docker.VALIDATE_SINCE:
            rc, out, err = run([*command, "--validate"])
            taken = rc == 0
        else:
            # dockerd reads its options, and only then finds that it is not root.
            drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            rc, out, err = run([*drop, *command])
            taken = "needs to be started with root" in err
        words = (err.strip() or out.strip()).replace(path, docker.DAEMON_JSON)
    return "" if taken else words.splitlines()[-1] if words else f"it ends with {rc}"


def read_place(path: str, mounts: t.Iterable[Mount], coming: t.Sequence[t.Mapping[str, t.Any]]) -> docker.Place:
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
    return place_of(
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


def read_group() -> tuple[str, ...] | None:
    group = accounts.group("docker")
    return tuple(sorted(group.gr_mem)) if group else None


def original_text(records: t.Mapping[str, Record], path: str) -> str | None:
    """What a file said before config_files put the role's in its place."""
    content = records[path].original.content if path in records else None
    return None if content is None else content.decode("utf-8", errors="replace")


def read_parts(tree: Tree) -> dict[str, str]:
    paths = sorted(f"{docker.PARTS}/{name}" for name in tree.names(docker.PARTS))
    return {path: tree.text(path) for path in paths if path.endswith(".json")}


def read_host(
    params: t.Mapping[str, t.Any],
    daemon: docker.Daemon | None,
    units: t.Mapping[str, t.Mapping[str, str]],
    firewall_rules: str,
) -> docker.Host:
    """:raises ValueError: the role's own record is damaged."""
    tree = Tree(ROOT)
    records = Store("docker", tree.at(STORE)).load()
    state = read_state(tree.at(docker.DAEMON_JSON))
    there = state.kind == "file"
    config = tree.text(docker.DAEMON_JSON) if there else None
    packages = parse_status(tree.text(STATUS))
    mounts = parse_mountinfo(Tree("/").text("/proc/self/mountinfo"))
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
        networks=parse_routes(Tree("/").text("/proc/net/route")),
        unknown_users=[user for user in params["users"] if accounts.uid_of(user) is None],
        group=read_group(),
        daemon=daemon,
        left=None if daemon else read_left(tree, packages, config),
        sources=read_sources(tree, params["repository"].get("url") or ""),
        firewalled=firewall_rules in Store("firewall", tree.at(STORE)).load(),
        brought=None if brought is None else tuple(brought),
        idle=[
            name
            for name, shown in units.items()
            if shown.get("ActiveState") != "active" and shown.get("UnitFileState") != "enabled"
        ],
    )

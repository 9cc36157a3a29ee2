# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read docker on a host: its files, its units, its disks, and the running daemon. Nothing is decided or changed here."""

from __future__ import annotations

import contextlib
import ipaddress
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
from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts, lines, record
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import (
    STORE,
    Record,
    Store,
    read_state,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject, PlannedMount
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import model as docker
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.api import ask, running_containers
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.options import (
    Params,
    Unreadable,
    parse_options,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import (
    Mount,
    is_within,
    parse_mountinfo,
    same_path,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system.systemd import parse_time, show

RunCommand = t.Callable[..., t.Any]

ROOT = "/"
UNIT = "docker.service"
# The docker of snap, which has the same socket and group as one of apt.
SNAP_UNIT = "snap.docker.dockerd.service"
SNAP = ("/snap/docker/current", f"/etc/systemd/system/{SNAP_UNIT}")
# In the data root of a node of a swarm.
SWARM_STATE = "swarm/docker-state.json"
# Of the routes that a VPN puts before the default route: 0.0.0.0/1 and 128.0.0.0/1.
HALF = 1
# A container with NVIDIA's runtime and one of these has no GPU.
NO_DEVICES = ("", "void", "none")
NOBODY = "65534"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"


def place_of(path: str, mounts: t.Iterable[Mount], **found: t.Any) -> docker.Place:
    """Return the file system that a path is on; *found* are the other fields of the place."""
    on = max(
        (mount for mount in mounts if is_within(path, mount.target)),
        key=lambda mount: len(mount.target),
        default=Mount("/"),
    )
    return docker.Place(mount=on.target, kind=on.fstype, **found)


def parse_routes(text: str, bridges: t.Container[str] = ()) -> dict[str, str]:
    """Return the networks of /proc/net/route with their interfaces, without the default route and docker's own bridges.

    :param bridges: interfaces of docker's networks that the user has named.
    """
    found = {}
    for line in text.splitlines()[1:]:
        interface, destination, *_rest = fields = line.split()
        own = re.fullmatch(r"docker0|docker_gwbridge|br-[0-9a-f]{12}", interface)
        length = bin(int(fields[7], 16)).count("1")
        if length > HALF and not own and interface not in bridges:
            address = ipaddress.IPv4Address(int.from_bytes(bytes.fromhex(destination), "little"))
            found[f"{address}/{length}"] = interface
    return found


def describe_containers(inspected: t.Iterable[JsonObject]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of running containers, and of those with a GPU, from what docker's API says of each."""
    running, gpu = [], []
    for container in inspected:
        name = str(container.get("Name", container.get("Id", ""))).lstrip("/")
        running.append(name)
        if _has_gpu(container):
            gpu.append(name)
    return tuple(sorted(running)), tuple(sorted(gpu))


def _has_gpu(container: JsonObject) -> bool:
    settings = container.get("HostConfig") or {}
    devices = [str(device.get("PathOnHost", "")) for device in settings.get("Devices") or []]
    if any(map(_is_nvidia, settings.get("DeviceRequests") or [])) or any("/nvidia" in path for path in devices):
        return True
    if "nvidia" not in str(settings.get("Runtime")):
        return False
    if "Config" not in container or "nvidia-container-devices" in str([settings.get("Binds"), container.get("Mounts")]):
        return True
    # With NVIDIA's runtime as docker's default one, only a container with this variable gets a GPU.
    variables = dict(str(entry).partition("=")[::2] for entry in container["Config"].get("Env") or [])
    return variables.get("NVIDIA_VISIBLE_DEVICES", "") not in NO_DEVICES


def _is_nvidia(request: t.Mapping[str, t.Any]) -> bool:
    """Return whether a request for devices may be for NVIDIA's; one by CDI names the maker (amd.com/gpu=0)."""
    names = request.get("DeviceIDs") or []
    return request.get("Driver") != "cdi" or not names or any("nvidia.com/" in str(name) for name in names)


def read_bridges() -> tuple[str, ...]:
    """Read the interfaces of docker's networks whose name the user has chosen.

    :raises OSError: docker does not answer.
    """
    options = [network.get("Options") or {} for network in ask("/networks") if isinstance(network, dict)]
    return tuple(
        sorted(
            str(row["com.docker.network.bridge.name"]) for row in options if row.get("com.docker.network.bridge.name")
        )
    )


def read_daemon(started: float, names: t.Iterable[str]) -> docker.Daemon:
    """Read a running docker over its API.

    :param names: possible paths of its data root; docker itself reports the target of links.
    """
    try:
        info = ask("/info")
        inspected = running_containers()
        bridges = read_bridges()
    except (OSError, ValueError):
        swarm = any(_in_swarm(Tree(ROOT), name) for name in names)
        return docker.Daemon(answers=False, started=started, swarm=swarm)
    running, gpu = describe_containers(inspected)
    root = docker.named_root(info)
    return docker.Daemon(
        root=next((name for name in names if same_path(name, root)), root),
        live_restore=bool(info.get("LiveRestoreEnabled")),
        # Also one that waits for its key, or could not join again.
        swarm=(info.get("Swarm") or {}).get("LocalNodeState", "") not in ("", "inactive"),
        stored=info["Containers"] + info["Images"],
        running=running,
        gpu=gpu,
        started=started,
        bridges=bridges,
    )


def read_stopped_daemon(
    tree: Tree, packages: t.Iterable[str], config: str | None, arguments: t.Sequence[str] | None = None
) -> docker.StoppedDaemon | None:
    """Read what a docker that is installed and does not run has stored; None without a docker."""
    if not {docker.ARCHIVE, docker.DOCKER_CE} & set(packages):
        return None
    try:
        root = docker.data_root_of(parse_options(config), arguments)
    except Unreadable:  # the checks refuse it
        root = docker.data_root_of({}, arguments)
    stored = 0
    for folder in _folders_of(tree, root):
        images = (f"{folder}/image/{driver}/imagedb/content/sha256" for driver in tree.names(f"{folder}/image"))
        stored += sum(len(tree.names(place)) for place in (f"{folder}/containers", *images))
    return docker.StoppedDaemon(root, stored, count_shims(), _in_swarm(tree, root))


def _in_swarm(tree: Tree, root: str) -> bool:
    return any(tree.exists(f"{folder}/{SWARM_STATE}") for folder in _folders_of(tree, root))


def _folders_of(tree: Tree, root: str) -> list[str]:
    """Return the directories in which docker keeps its data: the data root, and those of remapped users in it."""
    return [root, *(f"{root}/{name}" for name in tree.names(root) if docker.REMAPPED.fullmatch(name))]


def is_shim(arguments: t.Sequence[str], others: bool = False) -> bool:
    """Return whether a process is the shim of a container of docker, or of others in the containerd that docker uses as well."""
    if "containerd-shim" not in arguments[0]:
        return False
    # Plugins of docker have a namespace of their own.
    is_dockers = not {"moby", "plugins.moby"}.isdisjoint(arguments)
    return not is_dockers and CONTAINERD_SOCKET in arguments if others else "moby" in arguments


def count_shims(others: bool = False) -> int:
    """Count the running containers of root's docker by their shims, which are processes of containerd.

    :param others: count those of the same containerd that are not docker's, as pods of Kubernetes.
    """
    found = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        # A process may have ended in between.
        with contextlib.suppress(OSError):
            arguments = Tree("/").text(f"/proc/{pid}/cmdline").split("\0")
            found += is_shim(arguments, others) and os.stat(f"/proc/{pid}").st_uid == 0
    return found


_MADISON = {"version": r"[^|]+\|\s*(?P<version>\S+)\s*\|[^|]+", "note": r"[NW]: .*"}


def read_available(run: RunCommand, package: str) -> list[str]:
    """Return the versions of a package that apt knows."""
    _rc, out, _err = run(["apt-cache", "madison", package])
    return [match["version"] for name, match in lines.parse("apt-cache madison", out, _MADISON) if name == "version"]


def read_units(run: RunCommand) -> dict[str, dict[str, str]]:
    """Read docker's units from systemd; a unit that does not exist is inactive."""
    properties = ("ActiveState", "ActiveEnterTimestamp", "ExecStart", "MainPID", "UnitFileState")
    snap = [SNAP_UNIT] if any(map(Tree(ROOT).exists, SNAP)) else []
    shown = show(run, [*docker.UNITS, *snap], properties)
    return {name: {key: values[0] for key, values in properties.items()} for name, properties in shown.items()}


def read_service(shown: t.Mapping[str, str]) -> tuple[bool, float, list[str]]:
    """Return whether docker runs, since when, and the arguments that its unit passes to dockerd."""
    found = re.search(r"argv\[\]=\S+(.*?) ;", shown.get("ExecStart", ""))
    arguments = found[1].split() if found else []
    variables = [word for word in arguments if word.startswith("$")]
    if variables:
        # Debian's unit has DOCKER_OPTS of /etc/default/docker: only the process shows its value.
        process = Tree("/").text(f"/proc/{shown.get('MainPID') or 0}/cmdline").split("\0")[1:-1]
        arguments = process or [word for word in arguments if word not in variables]
    return shown.get("ActiveState") == "active", parse_time(shown.get("ActiveEnterTimestamp", "")), arguments


def validate_options(run: RunCommand, program: str, version: tuple[int, ...], arguments: list[str], text: str) -> str:
    """Have dockerd validate a daemon.json and return its error; empty for none."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "daemon.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        command = [program, *arguments, f"--config-file={path}"]
        if version >= docker.VALIDATE_SINCE:
            rc, out, err = run([*command, "--validate"])
            valid = rc == 0
        else:
            # dockerd reads its options first, and only then fails since it is not root. The path is in the list of processes, and the
            # text may have the password of a proxy: other users must not read it.
            for name, mode in ((path, 0o640), (directory, 0o710)):
                os.chown(name, -1, int(NOBODY))
                os.chmod(name, mode)
            drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            rc, out, err = run([*drop, *command])
            valid = "needs to be started with root" in err
        message = (err.strip() or out.strip()).replace(path, docker.DAEMON_JSON)
    return "" if valid else message.splitlines()[-1] if message else f"it ends with {rc}"


def read_place(path: str, mounts: t.Iterable[Mount], coming: t.Sequence[PlannedMount]) -> docker.Place:
    """Read the file system that a directory is, or will be, on.

    :param coming: mounts that earlier tasks would make in check mode.
    """
    planned = [row for row in coming if is_within(path, row["target"])]
    if planned:
        last = max(planned, key=lambda row: len(row["target"]))
        return docker.Place(mount=last["target"], kind=last["fstype"], free_bytes=last["bytes"])
    existing = path
    while not os.path.lexists(existing):
        existing = os.path.dirname(existing)
    system = os.statvfs(os.path.realpath(existing))
    return place_of(
        os.path.realpath(existing),
        mounts,
        read_only=bool(system.f_flag & os.ST_RDONLY),
        no_exec=bool(system.f_flag & os.ST_NOEXEC),
        free_bytes=system.f_bavail * system.f_frsize,
        file=not os.path.isdir(existing),
    )


def _read_record(tree: Tree, path: str, shape: t.Any) -> t.Any:
    """Read a record of the role; None where there is none.

    :raises ValueError: the record is damaged.
    """
    remedy = f"it is the role's own: restore it, or remove it, and what {docker.DAEMON_JSON} says now counts as the host's own"
    return record.read(tree.at(path), remedy, shape)


def read_memory(tree: Tree) -> docker.Memory | None:
    found = _read_record(tree, docker.MEMORY, {"host": dict, "written": dict, "users": [str], "held": [str]})
    if found is None:
        return None
    return docker.Memory(found["host"], found["written"], tuple(found["users"]), tuple(found["held"]))


def read_role_units(tree: Tree) -> tuple[str, ...] | None:
    """Return the units that run because of the role; None before its first run."""
    for path in (docker.ROLE_UNITS, docker.FORMER_ROLE_UNITS):
        found = _read_record(tree, path, [str])
        if found is not None:
            return tuple(found)
    return None


def read_sources(tree: Tree, url: str) -> list[str]:
    """Return the host's own files that give apt a repository."""
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
    """Return the content of a file before config_files replaced it."""
    content = records[path].original.content if path in records else None
    return None if content is None else content.decode("utf-8", errors="replace")


def read_parts(tree: Tree) -> dict[str, str]:
    paths = sorted(f"{docker.PARTS}/{name}" for name in tree.names(docker.PARTS))
    return {path: tree.text(path) for path in paths if path.endswith(".json")}


def _unknown(users: t.Iterable[str]) -> list[str]:
    return [user for user in users if accounts.uid_of(user) is None]


def has_snap(tree: Tree, unit: t.Mapping[str, str]) -> bool:
    """Return whether the docker of snap is installed and not switched off."""
    off = unit.get("UnitFileState") == "disabled" and unit.get("ActiveState") != "active"
    return not off and any(tree.exists(path) for path in SNAP)


def read_host(
    params: Params,
    daemon: docker.Daemon | None,
    units: t.Mapping[str, t.Mapping[str, str]],
    firewall_rules: str,
) -> docker.Host:
    """Read the host.

    :param firewall_rules: the file that the role firewall puts in place.
    :raises ValueError: a record of the role is damaged.
    """
    tree = Tree(ROOT)
    records = Store("docker", tree.at(STORE)).load()
    state = read_state(tree.at(docker.DAEMON_JSON))
    is_file = state.kind == "file"
    config = tree.text(docker.DAEMON_JSON) if is_file else None
    packages = parse_status(tree.text(STATUS))
    mounts = parse_mountinfo(Tree("/").text("/proc/self/mountinfo"))
    coming = params["planned"].get("mounts") or []
    unit = units.get(UNIT, {})
    arguments = read_service(unit)[2] if unit.get("ExecStart") else None
    # An invalid path is refused by the checks.
    paths = [path for path in docker.roots(params).values() if path.startswith("/")]
    containerd_config = tree.text(docker.CONTAINERD_CONFIG) if tree.exists(docker.CONTAINERD_CONFIG) else None
    return docker.Host(
        packages=packages,
        config=config,
        config_mode=state.mode if is_file else None,
        config_kind="" if state.kind in ("file", "missing") else state.kind,
        original=original_text(records, docker.DAEMON_JSON),
        settled=not (is_file and daemon and os.lstat(tree.at(docker.DAEMON_JSON)).st_ctime >= daemon.started),
        memory=read_memory(tree),
        parts={**read_parts(tree), **docker.coming_parts(params["coming_parts"])},
        containerd_config=containerd_config,
        containerd_stored=len(tree.names(docker.layers_of(containerd_config))),
        containerd_original=original_text(records, docker.CONTAINERD_CONFIG),
        containerd_managed=docker.CONTAINERD_CONFIG in records,
        places={path: read_place(path, mounts, coming) for path in paths},
        networks=parse_routes(Tree("/").text("/proc/net/route"), daemon.bridges if daemon else ()),
        unknown_users=_unknown(params["users"]),
        unknown_rootless_users=_unknown(params["rootless_users"]),
        group=read_group(),
        daemon=daemon,
        stopped=None if daemon else read_stopped_daemon(tree, packages, config, arguments),
        arguments=arguments,
        others=count_shims(others=True),
        snap=has_snap(tree, units.get(SNAP_UNIT, {})),
        sources=read_sources(tree, params["repository"].get("url") or ""),
        firewalled=firewall_rules in Store("firewall", tree.at(STORE)).load(),
        role_units=read_role_units(tree),
        idle=[
            name
            for name, shown in units.items()
            if name != SNAP_UNIT and shown.get("ActiveState") != "active" and shown.get("UnitFileState") != "enabled"
        ],
    )

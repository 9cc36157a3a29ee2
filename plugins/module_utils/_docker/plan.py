# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""What docker on a host is made of, and why it may have to be refused. Pure: facts and a request in, a plan out.

daemon.json has one owner, the role docker. It is the deep merge of what the host has of its own, the role's defaults, the user's
options, and the parts that other roles have put into PARTS (the GPU runtime of nvidia_container_toolkit).
"""

from __future__ import annotations

import dataclasses
import fnmatch
import ipaddress
import json
import os
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import Package
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.options import (
    ENDS_CONTAINERS,
    NETWORK_OPTIONS_SINCE,
    NEUTRAL,
    Options,
    Params,
    Unreadable,
    changed_options,
    default_options,
    dump,
    has_credentials,
    merge,
    own_part,
    parse_options,
    restart_part,
)

DAEMON_JSON = "/etc/docker/daemon.json"
CONTAINERD_CONFIG = "/etc/containerd/config.toml"
DATA_ROOT = "/var/lib/docker"
CONTAINERD_ROOT = "/var/lib/containerd"
DROP_IN = "/etc/systemd/system/docker.service.d/rigwright.conf"
PREFERENCES = "/etc/apt/preferences.d/rigwright-docker"
SOURCE = "/etc/apt/sources.list.d/rigwright-docker.sources"
KEY = "/etc/apt/keyrings/rigwright-docker.asc"

# In the order in which they are stopped: docker before what it needs.
UNITS = ("docker.socket", "docker.service", "containerd.service")
FOLDER = "/var/lib/rigwright_docker"
# What the role has to know again: what the host has of its own in daemon.json, what the role wrote there, and who is whose.
MEMORY = f"{FOLDER}/memory.json"
# The units that came with the role; written before the packages, which change the answer.
BROUGHT = f"{FOLDER}/brought.json"
# The options that dockerd reads only when it starts. The file changes exactly when a restart is due.
RESTART = f"{FOLDER}/restart.json"
# The one place for what other roles add to daemon.json: <role>.json, put there by the role's own set of config_files.
PARTS = f"{FOLDER}/parts"

AUTO = "auto"
ARCHIVE = "docker.io"
DOCKER_CE = "docker-ce"
# Packages of either edition that have the version of docker itself.
VERSIONED = (ARCHIVE, "docker-cli", DOCKER_CE, "docker-ce-cli", "docker-ce-rootless-extras")
# The path is part of the edition, and what apt replaces when it upgrades.
PROGRAMS = {ARCHIVE: "/usr/sbin/dockerd", DOCKER_CE: "/usr/bin/dockerd"}
CONFLICTS = {ARCHIVE: (DOCKER_CE, "podman-docker"), DOCKER_CE: (ARCHIVE, "podman-docker")}
# Epoch of the versions in Docker's repository.
EPOCHS = {ARCHIVE: "", DOCKER_CE: "5:"}

# `dockerd --validate`.
VALIDATE_SINCE = (23,)
# From here on docker drops what other hosts send directly to a container, or to a port that is published on a loopback address.
DIRECT_CLOSED_SINCE = (28,)

# File systems that neither overlay2 nor containerd's snapshots work on.
UNSUITABLE = frozenset({"nfs", "nfs4", "cifs", "smb3", "vfat", "exfat", "ntfs", "ntfs3", "fuseblk", "9p"})

_SIZE = re.compile(r"[1-9][0-9]*[bkmgBKMG]?")
_VERSION = re.compile(r"([0-9]+:)?[0-9][0-9A-Za-z.+~-]*")
_USER = re.compile(r"[a-z_][a-z0-9_.-]*\$?")
_MIRROR = re.compile(r"https?://[A-Za-z0-9.\[\]:_-]+(/[^\s?#]*)?")

Fault = dict[str, t.Any]


def coming_parts(parts: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, str]:
    """Parts by the name of their role as the files that they will be."""
    return {f"{PARTS}/{role}.json": dump(options) for role, options in parts.items()}


# --- The host ---


@dataclasses.dataclass(frozen=True)
class Place:
    """The file system that a directory is, or will be, on."""

    mount: str
    kind: str = "ext4"
    read_only: bool = False
    no_exec: bool = False
    free_bytes: int = 1 << 50
    file: bool = False


@dataclasses.dataclass(frozen=True)
class Daemon:
    """The running dockerd. ``stored`` counts containers and images; ``started`` is in seconds of the wall clock."""

    answers: bool = True
    root: str = DATA_ROOT
    live_restore: bool = False
    swarm: bool = False
    stored: int = 0
    running: tuple[str, ...] = ()
    gpu: tuple[str, ...] = ()
    started: float = 0.0


@dataclasses.dataclass(frozen=True)
class Left:
    """What a docker that does not run has left behind: containers and images in its data root, and containers that run on without it."""

    root: str = DATA_ROOT
    stored: int = 0
    running: int = 0


def place_of(path: str, mounts: str, **found: t.Any) -> Place:
    """The file system of a path by /proc/self/mountinfo (proc(5)); *found* is what the file system says of itself."""
    best = ("/", "")
    for line in mounts.splitlines():
        fields, _dash, tail = line.partition(" - ")
        point, kind = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields.split()[4]), tail.split()[0]
        # Of mounts on top of each other the last counts.
        if f"{path}/".startswith(f"{point.rstrip('/')}/") and len(point) >= len(best[0]):
            best = (point, kind)
    return Place(mount=best[0], kind=best[1], **found)


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


@dataclasses.dataclass(frozen=True)
class Memory:
    """What an earlier run left in MEMORY."""

    host: t.Mapping[str, t.Any]
    written: t.Mapping[str, t.Any]
    users: tuple[str, ...] = ()
    held: tuple[str, ...] = ()

    def dump(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1, sort_keys=True) + "\n"


@dataclasses.dataclass(frozen=True)
class Host:
    """What was read. ``daemon`` is None where no dockerd runs; ``group`` where there is no group docker; ``memory`` at first.

    ``idle`` are units of docker that neither run nor start with the host: `absent` leaves those of the role so, with their packages.
    ``settled`` says that nobody has written to daemon.json since dockerd started; ``refusal`` are dockerd's words about the
    options as they would be; ``sources`` are the files that already give apt Docker's repository. ``left`` is there where a docker
    is installed and does not run; ``config_kind`` says what lies at daemon.json that is no file; ``available`` are the versions
    that apt knows of the package that is asked for in a version, empty where it was not asked. ``containerd_stored`` counts the layers
    that lie with containerd: a docker whose images lie in its own data root has none there. ``firewalled`` says that the role
    firewall has its rules on the host.
    """

    packages: t.Mapping[str, Package]
    config: str | None = None
    original: str | None = None
    settled: bool = True
    memory: Memory | None = None
    parts: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    containerd_config: str | None = None
    containerd_original: str | None = None
    containerd_managed: bool = False
    containerd_stored: int = 0
    places: t.Mapping[str, Place] = dataclasses.field(default_factory=dict)
    networks: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    unknown_users: t.Sequence[str] = ()
    brought: tuple[str, ...] | None = None
    idle: t.Sequence[str] = ()
    group: tuple[str, ...] | None = None
    daemon: Daemon | None = None
    left: Left | None = None
    config_mode: int | None = None
    config_kind: str = ""
    available: t.Collection[str] = ()
    sources: t.Sequence[str] = ()
    firewalled: bool = False


@dataclasses.dataclass
class Plan:
    """What the role does, as its tasks take it."""

    edition: str = ARCHIVE
    requirements: list[Fault] = dataclasses.field(default_factory=list)
    findings: list[dict[str, str]] = dataclasses.field(default_factory=list)
    install: list[str] = dataclasses.field(default_factory=list)
    hold: list[str] = dataclasses.field(default_factory=list)
    unhold: list[str] = dataclasses.field(default_factory=list)
    package_files: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    repository: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    directories: list[dict[str, str]] = dataclasses.field(default_factory=list)
    files: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    files_afterwards: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    groups: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    units: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    options: Options = dataclasses.field(default_factory=dict)
    restart_waits: str = ""
    secret: bool = False


def edition_of(host: Host, params: Params) -> str:
    """The edition that is asked for, else the one that is there, else the distribution's."""
    if params["edition"] != AUTO:
        return str(params["edition"])
    return DOCKER_CE if DOCKER_CE in host.packages else ARCHIVE


def numbers(version: str) -> tuple[int, ...]:
    """``5:28.5.2-1~debian.12~bookworm`` and ``20.10.24+dfsg1`` as numbers that can be compared."""
    found = re.match(r"(?:[0-9]+:)?([0-9]+(?:\.[0-9]+)*)", version)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def version_of(host: Host, edition: str) -> tuple[int, ...]:
    """The version of docker that is there, empty when there is none."""
    return numbers(host.packages[edition].version) if edition in host.packages else ()


def own_options(host: Host) -> Options:
    """:raises Unreadable: daemon.json on the host."""
    now = parse_options(host.config)
    return now if host.memory is None else own_part(host.memory.host, host.memory.written, now)


def wanted_options(host: Host, params: Params) -> Options:
    """daemon.json as it should be.

    :raises Unreadable: daemon.json on the host, or a part.
    """
    version = version_of(host, edition_of(host, params))
    parts = [parse_options(text) for _name, text in sorted(host.parts.items())]
    return merge(own_options(host), default_options(params, version), params["daemon_options"], *parts)


def reset_options(host: Host, wanted: t.Mapping[str, t.Any]) -> Options:
    """What the role takes away, as it has to stand in daemon.json until docker has read it."""
    written = host.memory.written if host.memory else {}
    return {key: NEUTRAL[key] for key in written if key in NEUTRAL and key not in wanted}


def roots(params: Params) -> dict[str, str]:
    """The directories that docker's data goes to, by the variable that says so.

    From docker 29 on images and containers lie with containerd, on older ones next to nothing does: so it goes along always.
    """
    data_root = str(params["daemon_options"].get("data-root") or params["data_root"])
    found = {"docker_data_root": data_root}
    beside = os.path.join(os.path.dirname(data_root), "containerd") if data_root else ""
    found["docker_containerd_root"] = params["containerd_root"] or beside
    return {variable: path for variable, path in found.items() if path}


def containerd_root_of(text: str | None) -> str:
    """The root in containerd's configuration; only what stands before the first table is its own."""
    own = re.split(r"^\s*\[", text or "", maxsplit=1, flags=re.MULTILINE)[0]
    found = re.search(r"""^\s*root\s*=\s*["']([^"']*)["']""", own, re.MULTILINE)
    return found[1] if found else CONTAINERD_ROOT


def layers_of(config: str | None) -> str:
    """Where containerd with this configuration keeps what it has pulled: docker's images, where docker stores them with containerd."""
    return f"{containerd_root_of(config)}/io.containerd.content.v1.content/blobs/sha256"


def with_containerd_root(text: str | None, root: str) -> str:
    """containerd's configuration with another root, and every other line as it is."""
    lines = (text or "version = 2\n").splitlines(keepends=True)
    first_table = next((number for number, line in enumerate(lines) if line.lstrip().startswith("[")), len(lines))
    line = f"root = {json.dumps(root)}\n"
    for number in range(first_table):
        if re.match(r"\s*root\s*=", lines[number]):
            return "".join([*lines[:number], line, *lines[number + 1 :]])
    # After `version`, which containerd's own files begin with.
    place = next((n + 1 for n in range(first_table) if re.match(r"\s*version\s*=", lines[n])), 0)
    if place and not lines[place - 1].endswith("\n"):
        lines[place - 1] += "\n"
    return "".join([*lines[:place], line, *lines[place:]])


# --- Why it may have to be refused ---


def fault(variable: str, problem: str, remedy: str) -> Fault:
    return {"ok": False, "variable": variable, "problem": problem, "remedy": remedy}


def input_faults(params: Params) -> t.Iterator[Fault]:
    """What is wrong with the request by itself."""
    for variable, path in roots(params).items():
        if not path.startswith("/") or os.path.normpath(path) != path or path.count("/") < 2 or re.search(r"\s", path):
            yield fault(variable, f"is no directory for data: {path!r}", "write a path such as /data/docker")
    given = list(roots(params).values())
    if len(given) > 1 and any(
        f"{one}/".startswith(f"{other}/") for one in given for other in given if one is not other
    ):
        yield fault(
            "docker_containerd_root", "lies in docker_data_root, or around it", "give each a directory of its own"
        )
    if params["bind_ip"] and not _is_address(params["bind_ip"]):
        yield fault("docker_bind_ip", f"is no IP address: {params['bind_ip']!r}", "write 127.0.0.1, or 0.0.0.0 for all")
    for name in ("shm_size", "log_max_size"):
        if params[name] and not _SIZE.fullmatch(params[name]):
            yield fault(f"docker_{name}", f"is no size: {params[name]!r}", "write it as 50m or 1g")
    if params["log_max_files"] < 1:
        yield fault("docker_log_max_files", "must be at least 1", "write 5, for example")
    for mirror in params["registry_mirrors"]:
        if not _MIRROR.fullmatch(mirror):
            yield fault(
                "docker_registry_mirrors", f"has what is no address: {mirror!r}", "write https://mirror.example.org"
            )
    for user in params["users"]:
        if not _USER.fullmatch(user):
            yield fault("docker_users", f"has what is no user name: {user!r}", "list names of users of the host")
    if params["version"] and not _VERSION.fullmatch(params["version"]):
        yield fault("docker_version", f"is no version: {params['version']!r}", "write 28.5, or 28.5.2")
    yield from _pool_faults(params["address_pools"])


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _pool_faults(pools: t.Sequence[t.Mapping[str, t.Any]]) -> t.Iterator[Fault]:
    for pool in pools:
        try:
            base = ipaddress.ip_network(pool["base"])
        except ValueError as error:
            yield fault(
                "docker_address_pools", f"has what is no network: {error}", "write {base: 10.250.0.0/16, size: 24}"
            )
            continue
        if not base.prefixlen <= pool["size"] <= base.max_prefixlen - 2:
            yield fault(
                "docker_address_pools",
                f"cannot cut networks of /{pool['size']} out of {base}",
                f"choose a size from {base.prefixlen} to {base.max_prefixlen - 2}",
            )


def host_faults(host: Host, params: Params, plan: Plan) -> t.Iterator[Fault]:
    """What speaks against the request on this host."""
    if host.config_kind:
        yield fault(
            DAEMON_JSON,
            f"is a {host.config_kind}, and the role writes a file of its own",
            "put what it says into docker_daemon_options, or a file in its place",
        )
    for conflict in CONFLICTS[plan.edition]:
        if conflict in host.packages:
            yield fault(
                "docker_edition",
                f"is {plan.edition}, and {conflict} is installed, which apt would remove with its running containers",
                f"set docker_edition to what is there, or stop the containers and `apt-get remove {conflict}` (data stays)",
            )
    foreign = [
        name for name in pinned(host, params, plan.edition) if host.packages[name].hold and name not in held(host)
    ]
    if foreign:
        yield fault(
            "docker_version", f"asks for another version of {', '.join(foreign)}, on hold", "`apt-mark unhold` first"
        )
    if host.available and not fnmatch.filter(host.available, glob_of(params, plan.edition)):
        yield fault(
            "docker_version",
            f"is {params['version']}, which apt does not have of {plan.edition}",
            f"choose among {', '.join(host.available)}, or `apt-get update` first",
        )
    for network, interface in host.networks.items():
        for pool in params["address_pools"]:
            if ipaddress.ip_network(network).overlaps(ipaddress.ip_network(pool["base"])):
                yield fault(
                    "docker_address_pools",
                    f"has {pool['base']}, which overlaps {network}, a network of this host ({interface})",
                    "choose private addresses that are not in use at your place",
                )
    if host.unknown_users:
        yield fault(
            "docker_users",
            f"names no user of this host: {', '.join(host.unknown_users)}",
            "make them first, or drop them",
        )
    if "hosts" in plan.options:
        yield fault(
            "docker_daemon_options",
            "(or the host's daemon.json) has hosts, which docker.service gives as -H: dockerd would not start",
            f"use a drop-in for docker.service, or ssh ({DAEMON_JSON} may hold it too)",
        )
    yield from _storage_faults(host, params)
    yield from _move_faults(host, params, roots(params), plan.options)


def current_roots(host: Host) -> dict[str, str]:
    """Where the data of docker lies, by the variables that can say so."""
    docker = host.daemon or host.left
    if docker is None:
        return {}
    return {
        "docker_data_root": docker.root,
        "docker_containerd_root": containerd_root_of(host.containerd_config),
    }


def _storage_faults(host: Host, params: Params) -> t.Iterator[Fault]:
    current = current_roots(host)
    for variable, path in roots(params).items():
        place = host.places[path]
        if place.file:
            yield fault(variable, f"is {path}, in the way of which lies a file", "choose a directory")
        elif place.kind in UNSUITABLE:
            yield fault(
                variable, f"is {path}, on {place.mount}: {place.kind}, which docker cannot use", "use ext4 or xfs"
            )
        elif place.read_only:
            yield fault(
                variable, f"is {path}, on {place.mount}, which is read-only", "see `dmesg`; mount it for writing"
            )
        elif place.no_exec:
            yield fault(variable, f"is {path}, on {place.mount}, mounted noexec", "mount it without noexec")
        elif path != current.get(variable) and place.free_bytes < params["free_bytes"]:
            yield fault(
                variable,
                f"is {path}, on {place.mount}, which has {_mebibytes(place.free_bytes)} left"
                f" of the {_mebibytes(params['free_bytes'])} that docker_free_bytes asks for",
                "free some room, or choose another disk",
            )


def _move_faults(
    host: Host, params: Params, given: t.Mapping[str, str], options: t.Mapping[str, t.Any]
) -> t.Iterator[Fault]:
    """Stored data is not left behind unasked, be it that a directory is named or no longer named."""
    unmanaged = host.containerd_original if host.containerd_managed else host.containerd_config
    coming = {
        "docker_data_root": options.get("data-root", DATA_ROOT),
        "docker_containerd_root": given.get("docker_containerd_root", containerd_root_of(unmanaged)),
    }
    in_docker = (host.daemon or host.left or Left()).stored
    stored = {
        "docker_data_root": f"{in_docker} containers and images" if in_docker else "",
        "docker_containerd_root": f"{host.containerd_stored} layers" if host.containerd_stored else "",
    }
    for variable, now in current_roots(host).items():
        if stored[variable] and now != coming[variable] and not params["allow_disruption"]:
            yield fault(
                variable,
                f"comes to {coming[variable]}, and docker has {stored[variable]} in {now}, which it would no longer see",
                "move them first (docs/docker.md), or set docker_allow_disruption to leave them behind",
            )


def _mebibytes(size: int) -> str:
    return f"{size // 1048576} MiB"


def disruption(host: Host, before: t.Mapping[str, t.Any], after: t.Mapping[str, t.Any]) -> str:
    """What a restart of docker from some options to others would do harm to, empty when nothing."""
    daemon = host.daemon
    if daemon is None:
        return ""
    if not daemon.answers:
        return "docker does not answer, so nobody knows what runs"
    if daemon.gpu:
        return f"containers use a GPU: {', '.join(daemon.gpu)}"
    if not daemon.running:
        return ""
    names = ", ".join(daemon.running)
    if not daemon.live_restore:
        return f"live-restore is not in force yet, and these containers would end: {names}"
    if daemon.swarm:
        return f"the host is part of a swarm, which knows no live-restore: {names}"
    ending = changed_options(before, after) & ENDS_CONTAINERS
    return f"{', '.join(sorted(ending))} would change, which these containers do not survive: {names}" if ending else ""


# --- The plan ---


def held(host: Host) -> tuple[str, ...]:
    """What the role has put on hold."""
    return host.memory.held if host.memory else ()


def held_with(names: t.Iterable[str]) -> list[str]:
    """Docker's own packages: a hold must not keep security fixes from what others use too."""
    return [name for name in names if name.startswith(("docker", "containerd"))]


def glob_of(params: Params, edition: str) -> str:
    version = params["version"]
    # 28.5 stands for 28.5.1 and 28.5-1, not for 28.50. A star at the end apt takes by itself, for whatever begins so.
    rest = "*" if "-" in version else "[!0-9]*[0-9A-Za-z]"
    return f"{'' if ':' in version else EPOCHS[edition]}{version}{rest}"


def pinned(host: Host, params: Params, edition: str) -> list[str]:
    """The packages that are there in another version than the one that is asked for."""
    names = [name for name in params["packages"][edition] if name in VERSIONED and name in host.packages]
    wrong = [name for name in names if not fnmatch.fnmatchcase(host.packages[name].version, glob_of(params, edition))]
    return wrong if params["version"] else []


def plan_packages(plan: Plan, host: Host, params: Params) -> None:
    names = list(params["packages"][plan.edition])
    versioned = [name for name in names if name in VERSIONED]
    wrong = [name for name in names if name not in host.packages or not host.packages[name].whole]
    wrong += pinned(host, params, plan.edition)
    glob = glob_of(params, plan.edition)
    plan.install = [
        f"{name}={glob}" if params["version"] and name in versioned else name for name in names if name in wrong
    ]
    brought = units_unused(host) if host.brought is None else host.brought
    plan.package_files.append({"path": BROUGHT, "content": json.dumps(brought) + "\n"})
    there = [name for name in held_with(names) if name in host.packages]
    plan.hold = [name for name in there if params["hold"] and not host.packages[name].hold]
    plan.unhold = [name for name in held(host) if not params["hold"] and name in there and host.packages[name].hold]
    if params["version"]:
        text = f"Package: {' '.join(versioned)}\nPin: version {glob}\nPin-Priority: 1001\n"
        plan.package_files.append({"path": PREFERENCES, "content": text})
    if plan.edition == DOCKER_CE and not host.sources:
        plan.repository = dict(params["repository"])
        plan.package_files.append({"path": SOURCE, "content": source_text(params["repository"])})


def units_unused(host: Host) -> tuple[str, ...]:
    """The units that no package on the host has yet, or that nobody uses."""
    docker = any(name in host.packages for name in PROGRAMS)
    containerd = any(name in host.packages for name in ("containerd", "containerd.io"))
    there = {"docker.socket": docker, "docker.service": docker, "containerd.service": containerd}
    return tuple(name for name in UNITS if not there[name] or name in host.idle)


def source_text(repository: t.Mapping[str, t.Any]) -> str:
    fields = {
        "Types": "deb",
        "URIs": repository["url"],
        "Suites": repository["suite"],
        "Components": "stable",
        "Architectures": repository["architecture"],
        "Signed-By": KEY,
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items())


def plan_members(plan: Plan, host: Host, params: Params) -> None:
    """Members of the group are as good as root: those whom the role put there go with the list, the others are told of."""
    earlier = host.memory.users if host.memory else ()
    now = host.group or ()
    wanted = sorted({*now} - {*earlier} | {*params["users"]})
    if wanted != sorted(now):
        plan.groups = [{"name": "docker", "system": True, "members": wanted, "append": False}]
    plan.findings.append(
        {
            "id": "docker.group",
            "status": "warn" if wanted else "pass",
            "evidence": f"without a password these are as good as root: {', '.join(wanted)}"
            if wanted
            else "the group docker has no members: docker is for root and sudo",
            "remedy": "keep only those in the group who may be root; for the others rootless docker (docs/docker.md)",
        }
    )


def protection(host: Host, options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What daemon.json gets where it is for root alone: others may not read it as it is, or it has the password of a proxy or a mirror."""
    if host.config_mode is not None and not host.config_mode & 0o004:
        return {"mode": f"{host.config_mode:04o}", "secret": True}
    return {"mode": "0600", "secret": True} if has_credentials(options) else {}


def plan_files(plan: Plan, host: Host, params: Params) -> None:
    now = host.group or ()
    earlier = host.memory.users if host.memory else ()
    reset = reset_options(host, plan.options)
    options = {**reset, **plan.options}
    memory = Memory(
        host=own_options(host),
        written=options,
        # Whom the role put there, not who was there before.
        users=tuple(user for user in params["users"] if user in earlier or user not in now),
        held=tuple(
            name for name in held_with(params["packages"][plan.edition]) if params["hold"] and _ours_to_hold(name, host)
        ),
    )
    # FOLDER is there by now: it came before the packages (tasks/install.yml).
    plan.directories = [{"path": "/etc/docker"}, {"path": PARTS}]
    # Of an older docker the words on the options are asked for before anything changes.
    validate = {"validate": f"{PROGRAMS[plan.edition]} --validate --config-file=%s"}
    protected = protection(host, options)
    plan.secret = bool(protected)
    plan.files = [
        {
            "path": DAEMON_JSON,
            "content": dump(options),
            **protected,
            **(validate if version_of(host, plan.edition) >= VALIDATE_SINCE else {}),
        },
        {"path": RESTART, "content": dump(restart_part(options)), "mode": "0600", "secret": plan.secret},
        {"path": MEMORY, "content": memory.dump(), "mode": "0600", "secret": plan.secret},
    ]
    found = roots(params)
    if "docker_containerd_root" in found:
        plan.directories.append({"path": "/etc/containerd"})
        text = with_containerd_root(host.containerd_config, found["docker_containerd_root"])
        check = {"validate": "/usr/bin/containerd --config=%s config dump"}
        there = {"containerd", "containerd.io"} & host.packages.keys()
        plan.files.append({"path": CONTAINERD_CONFIG, "content": text, **(check if there else {})})
    if found:
        # A disk that is not mounted must not have docker fill the directory under it.
        plan.directories.append({"path": os.path.dirname(DROP_IN)})
        text = f"# {plan.edition}: not before its disks\n[Unit]\nRequiresMountsFor={' '.join(found.values())}\n"
        plan.files.append({"path": DROP_IN, "content": text})
    if reset:
        last = {
            DAEMON_JSON: dump(plan.options),
            MEMORY: dataclasses.replace(memory, written=plan.options).dump(),
        }
        plan.files_afterwards = [{**file, "content": last.get(file["path"], file["content"])} for file in plan.files]


def _ours_to_hold(name: str, host: Host) -> bool:
    return name in held(host) or not (name in host.packages and host.packages[name].hold)


def plan_units(plan: Plan, host: Host, params: Params) -> None:
    """dockerd reads daemon.json again on a reload. It is restarted for what it reads only when it starts, and for another program."""
    before = host.memory.written if host.memory else own_options(host)
    reason = disruption(host, restart_part(before), restart_part(plan.options))
    if (
        reason
        and roots(params)
        and containerd_root_of(host.containerd_config) != roots(params)["docker_containerd_root"]
    ):
        reason = f"{reason}; and containerd would change its root"
    may_restart = not reason or params["allow_disruption"]
    unit: dict[str, t.Any] = {
        "name": "docker.service",
        "restart_on": [RESTART, PROGRAMS[plan.edition]],
        "reload_on": [DAEMON_JSON],
        "may_restart": may_restart,
    }
    if plan.edition in host.packages:
        # Of a package that is not there yet, check mode does not know that it enables its unit itself.
        unit["enabled"] = True
    if host.memory is None and host.settled and restart_part(before) == restart_part(plan.options):
        unit["loaded"] = [RESTART]
    storage = roots(params)
    plan.units = [unit]
    if storage:
        containerd = {"name": "containerd.service", "restart_on": [CONTAINERD_CONFIG], "may_restart": may_restart}
        if {"containerd", "containerd.io"} & host.packages.keys():
            containerd["enabled"] = True
        plan.units = [containerd, unit]
    plan.restart_waits = "" if may_restart else reason


def plan_ports(plan: Plan, host: Host, params: Params) -> None:
    version = version_of(host, plan.edition)
    if params["bind_ip"] and version and version < NETWORK_OPTIONS_SINCE:
        plan.findings.append(
            {
                "id": "docker.ports",
                "status": "warn",
                "evidence": f"docker {'.'.join(map(str, version))} keeps ports to {params['bind_ip']} on its default bridge"
                " alone: those of `docker compose` and of other networks are open to everybody",
                "remedy": "write the address with the port (127.0.0.1:8080:80), or set docker_edition to docker-ce",
            }
        )
    if version:
        plan.findings.append(
            _direct_finding(".".join(map(str, version)), version >= DIRECT_CLOSED_SINCE, host.firewalled)
        )


def _direct_finding(version: str, closed: bool, firewalled: bool) -> dict[str, str]:
    if closed:
        evidence = f"docker {version} drops what other hosts send directly to containers"
    elif firewalled:
        evidence = "the role firewall drops what other hosts send directly to containers"
    else:
        evidence = f"docker {version} lets other hosts of the same network reach ports that are published on 127.0.0.1"
    return {
        "id": "docker.direct",
        "status": "pass" if closed or firewalled else "warn",
        "evidence": evidence,
        "remedy": "apply the role firewall (firewall_state: present), or set docker_edition to docker-ce for docker 28 or newer",
    }


def plan_present(host: Host, params: Params) -> Plan:
    plan = Plan(edition=edition_of(host, params), requirements=list(input_faults(params)))
    try:
        plan.options = wanted_options(host, params)
    except Unreadable:
        plan.requirements += unreadable_faults(host)
    if plan.requirements:
        return plan
    plan.requirements = list(host_faults(host, params, plan))
    for step in (plan_packages, plan_members, plan_files, plan_units, plan_ports):
        step(plan, host, params)
    return plan


def unreadable_faults(host: Host) -> t.Iterator[Fault]:
    for path, text in {DAEMON_JSON: host.config, **host.parts}.items():
        try:
            parse_options(text)
        except Unreadable as error:
            yield fault(path, str(error), "mend it, or move it away: what it says is kept")


def refusal_faults(words: str, params: Params) -> t.Iterator[Fault]:
    """What dockerd says of the options as they would be, by the one who gave them."""
    if not words:
        return
    unknown = re.search(r"don't match any configuration option: (.+)", words)
    names = [name for name in re.split(r"[,\s]+", unknown[1]) if name] if unknown else []
    given = [name for name in names if name in params["daemon_options"]]
    problem = (
        f"has options that dockerd does not know: {', '.join(names)}" if names else f"is refused by dockerd: {words}"
    )
    yield fault(
        "docker_daemon_options" if given or not names else DAEMON_JSON,
        problem,
        "see the reference of dockerd for the options of this version",
    )


def plan_absent(host: Host, params: Params) -> Plan:
    """Give back what was there. Packages stay, and so does what docker has stored; nothing that runs is ended unasked."""
    plan = Plan(edition=DOCKER_CE if DOCKER_CE in host.packages else ARCHIVE)
    memory = host.memory
    brought = host.brought or ()
    plan.units = [{"name": name, "state": "stopped", "enabled": False} for name in brought]
    if memory is None:
        # A run that was cut short has given the configuration back, and docker may not have it yet.
        if host.daemon and host.brought == ():
            may_restart = not disruption(host, {}, {}) or params["allow_disruption"]
            plan.units = [{"name": "docker.service", "restart_on": [DAEMON_JSON], "may_restart": may_restart}]
        return plan
    try:
        plan.options = own_options(host)
    except Unreadable:
        plan.requirements = list(unreadable_faults(host))
        return plan
    reason = disruption(host, restart_part(memory.written), restart_part(plan.options))
    if host.left and host.left.running:
        reason = f"{host.left.running} containers run on without docker: start it, and look at `docker ps`"
    if brought and host.daemon and host.daemon.running:
        reason = (
            reason or f"docker came with the role, and these containers would end: {', '.join(host.daemon.running)}"
        )
    if reason and not params["allow_disruption"]:
        plan.requirements = [
            fault("docker_state", f"is absent, and {reason}", "stop them first, or set docker_allow_disruption")
        ]
    if "docker.service" not in brought:
        plan.requirements += _move_faults(host, params, {}, plan.options)
    try:
        untouched = parse_options(host.original) == plan.options
    except Unreadable:
        untouched = False
    if not untouched:
        released = {"path": DAEMON_JSON, "content": dump(plan.options), "state": "released"}
        plan.files = [{**released, **protection(host, plan.options)}]
    plan.unhold = [name for name in memory.held if name in host.packages and host.packages[name].hold]
    leaving = {*memory.users} & {*(host.group or ())}
    if leaving:
        members = sorted({*(host.group or ())} - leaving)
        plan.groups = [{"name": "docker", "members": members, "append": False}]
    if host.daemon and "docker.service" not in brought:
        # On a reload dockerd keeps what it had of an option that is gone.
        gone = memory.written.keys() - plan.options.keys()
        reload = not gone and restart_part(memory.written) == restart_part(plan.options)
        kind = "reload_on" if reload else "restart_on"
        plan.units.insert(0, {"name": "docker.service", kind: [DAEMON_JSON]})
        if host.containerd_managed:
            plan.units.insert(0, {"name": "containerd.service", "restart_on": [CONTAINERD_CONFIG]})
    return plan

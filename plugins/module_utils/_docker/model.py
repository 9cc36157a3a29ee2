# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Model of docker on a host: its paths and editions, the facts that were read, the memory of earlier runs, and the plan.

daemon.json has one owner, the role docker. It is the deep merge of the host's own options, the role's defaults, the user's
options, and the parts that other roles have put into PARTS (the GPU runtime of nvidia_container_toolkit).
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import os
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import Package
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, Problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import (
    DirectoryRow,
    FileRow,
    JsonObject,
    UnitRow,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.options import (
    NEUTRAL,
    Options,
    Params,
    default_options,
    dump,
    merge,
    own_part,
    parse_options,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system.groups import GroupRow

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
# The record of the role: the host's own options, the options that the role wrote, and the users and holds that it added.
MEMORY = f"{FOLDER}/memory.json"
# The units that run because of the role. Written before the packages, whose installation would change the answer.
ROLE_UNITS = f"{FOLDER}/units.json"
# Its name before 0.1.0. The set of files that has the record removes it when it writes the new one.
FORMER_ROLE_UNITS = f"{FOLDER}/brought.json"
# The options that dockerd reads only when it starts. The file changes exactly when a restart is due.
RESTART = f"{FOLDER}/restart.json"
# What other roles add to daemon.json: <role>.json, which is in a set of config_files of that role.
PARTS = f"{FOLDER}/parts"
AUTO = "auto"
ARCHIVE = "docker.io"
DOCKER_CE = "docker-ce"
# Packages of both editions that have the version of docker itself.
VERSIONED = (ARCHIVE, "docker-cli", DOCKER_CE, "docker-ce-cli", "docker-ce-rootless-extras")
# The path depends on the edition. apt replaces this file when it upgrades docker.
PROGRAMS = {ARCHIVE: "/usr/sbin/dockerd", DOCKER_CE: "/usr/bin/dockerd"}
CONFLICTS = {
    # moby-engine: the docker of Azure's images.
    ARCHIVE: (DOCKER_CE, "podman-docker", "moby-engine"),
    DOCKER_CE: (ARCHIVE, "podman-docker", "moby-engine"),
}
# containerd of the other edition, which apt replaces.
REPLACED = {ARCHIVE: "containerd.io", DOCKER_CE: "containerd"}
# Epoch of the versions in Docker's repository.
EPOCHS = {ARCHIVE: "", DOCKER_CE: "5:"}
# `dockerd --validate`.
VALIDATE_SINCE = (23,)
# The directory of remapped users in the data root, by their first uid and gid.
REMAPPED = re.compile(r"[0-9]+\.[0-9]+")


def coming_parts(parts: t.Mapping[str, Options]) -> dict[str, str]:
    """Return the files that parts will be in, from the parts by the name of their role."""
    return {f"{PARTS}/{role}.json": dump(options) for role, options in parts.items()}


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
    """A running dockerd. ``stored`` counts containers and images; ``started`` is in seconds of the wall clock.

    ``bridges`` are the interfaces of its networks that the user has named.
    """

    answers: bool = True
    root: str = DATA_ROOT
    live_restore: bool = False
    swarm: bool = False
    stored: int = 0
    running: tuple[str, ...] = ()
    gpu: tuple[str, ...] = ()
    started: float = 0.0
    bridges: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class StoppedDaemon:
    """A docker that does not run: what is stored in its data root, and how many containers still run without it."""

    root: str = DATA_ROOT
    stored: int = 0
    running: int = 0
    swarm: bool = False


@dataclasses.dataclass(frozen=True)
class Memory:
    """The content of MEMORY, which an earlier run wrote."""

    host: Options
    written: Options
    users: tuple[str, ...] = ()
    held: tuple[str, ...] = ()

    def dump(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1, sort_keys=True) + "\n"


@dataclasses.dataclass(frozen=True)
class Host:
    """The facts of a host. ``daemon`` is None where no dockerd runs, ``group`` where there is no group docker, ``memory`` on a first run.

    ``settled``: daemon.json was not written since dockerd started.
    ``config_kind``: what is at the path of daemon.json, where it is not a regular file.
    ``idle``: units of docker that neither run nor start at boot. After `absent` the units of the role are so again.
    ``stopped``: a docker that is installed and does not run.
    ``sources``: files that already give apt Docker's repository.
    ``available``: versions that apt knows of docker; empty where the request names no version.
    ``containerd_stored``: layers that containerd stores. A docker that keeps its images in its own data root has none there.
    ``arguments``: those that dockerd gets on its command line; None where there is no unit yet.
    ``snap``: the docker of snap is installed, and starts at boot.
    ``others``: running containers of containerd that are not docker's.
    ``firewalled``: the rules of the role firewall are in place.
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
    unknown_rootless_users: t.Sequence[str] = ()
    role_units: tuple[str, ...] | None = None
    idle: t.Sequence[str] = ()
    group: tuple[str, ...] | None = None
    daemon: Daemon | None = None
    stopped: StoppedDaemon | None = None
    config_mode: int | None = None
    config_kind: str = ""
    available: t.Collection[str] = ()
    sources: t.Sequence[str] = ()
    arguments: t.Sequence[str] | None = None
    snap: bool = False
    others: int = 0
    firewalled: bool = False


@dataclasses.dataclass
class Plan:
    """What is decided of docker; run.py makes the plan of the role of it."""

    edition: str = ARCHIVE
    requirements: list[Problem] = dataclasses.field(default_factory=list)
    findings: list[Finding] = dataclasses.field(default_factory=list)
    install: list[str] = dataclasses.field(default_factory=list)
    hold: list[str] = dataclasses.field(default_factory=list)
    unhold: list[str] = dataclasses.field(default_factory=list)
    package_files: list[FileRow] = dataclasses.field(default_factory=list)
    repository: JsonObject = dataclasses.field(default_factory=dict)
    directories: list[DirectoryRow] = dataclasses.field(default_factory=list)
    files: list[FileRow] = dataclasses.field(default_factory=list)
    files_afterwards: list[FileRow] = dataclasses.field(default_factory=list)
    groups: list[GroupRow] = dataclasses.field(default_factory=list)
    units: list[UnitRow] = dataclasses.field(default_factory=list)
    options: Options = dataclasses.field(default_factory=dict)
    restart_waits: str = ""
    secret: bool = False
    # Where dockerd and containerd store data with these options, also where no variable names it.
    data_root: str = DATA_ROOT
    containerd_root: str = CONTAINERD_ROOT


def edition_of(host: Host, params: Params) -> str:
    """Return the requested edition, else the installed one, else the distribution's."""
    if params["edition"] != AUTO:
        return str(params["edition"])
    return DOCKER_CE if DOCKER_CE in host.packages else ARCHIVE


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version such as ``5:28.5.2-1~debian.12~bookworm`` or ``20.10.24+dfsg1``."""
    found = re.match(r"(?:[0-9]+:)?([0-9]+(?:\.[0-9]+)*)", version)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def version_of(host: Host, edition: str) -> tuple[int, ...]:
    """Return the installed version of docker; empty without one."""
    return numbers(host.packages[edition].version) if edition in host.packages else ()


def own_options(host: Host) -> Options:
    """Return the host's own options in daemon.json.

    :raises Unreadable: daemon.json is not valid.
    """
    now = parse_options(host.config)
    return now if host.memory is None else own_part(host.memory.host, host.memory.written, now)


def wanted_options(host: Host, params: Params) -> Options:
    """Return the options that daemon.json should have.

    :raises Unreadable: daemon.json on the host, or a part, is not valid.
    """
    version = version_of(host, edition_of(host, params))
    parts = [parse_options(text) for _name, text in sorted(host.parts.items())]
    own, defaults = own_options(host), default_options(params, version)
    if in_swarm(host):
        # dockerd takes it on a reload, and then does not start again.
        del defaults["live-restore"]
        defaults.update({"live-restore": False} if own.get("live-restore") else {})
    return merge(own, defaults, params["daemon_options"], *parts)


def in_swarm(host: Host) -> bool:
    """Return whether docker is a node of a swarm, which has no live-restore."""
    docker = host.daemon or host.stopped
    return docker is not None and docker.swarm


def flags(arguments: t.Iterable[str], *names: str) -> list[str]:
    """Return the values of an option on the command line of dockerd, by its names such as ``--host`` and ``-H``."""
    found, rest = [], iter(arguments)
    for word in rest:
        name, equals, value = word.partition("=")
        short = next((short for short in names if len(short) == 2 and word.startswith(short) and word != short), "")
        if name in names:
            found.append(value if equals else next(rest, ""))
        elif short:
            found.append(word[2:].lstrip("="))
    return found


def data_root_of(options: Options, arguments: t.Sequence[str] | None) -> str:
    """Return where dockerd stores its data, by its options and its command line. ``graph`` is the name before docker 23."""
    named = [options.get("data-root"), options.get("graph"), *flags(arguments or (), "--data-root", "--graph", "-g")]
    return next((str(path) for path in named if path), DATA_ROOT)


def named_root(info: Options) -> str:
    """Return the data root as daemon.json names it. With remapped users docker works in a directory below, 165536.165536."""
    root = str(info.get("DockerRootDir", ""))
    folder, _slash, name = root.rpartition("/")
    return folder if "name=userns" in (info.get("SecurityOptions") or ()) and REMAPPED.fullmatch(name) else root


def reset_options(host: Host, wanted: Options) -> Options:
    """Return neutral values of the options that the role removes; daemon.json has them until docker has read it."""
    written = host.memory.written if host.memory else {}
    return {key: NEUTRAL[key] for key in written if key in NEUTRAL and key not in wanted}


def roots(params: Params) -> dict[str, str]:
    """Return the requested directories for data, by the variables that name them.

    Since docker 29 containerd stores images and containers, before it stores almost nothing. So its directory always moves along.
    """
    data_root = without_final_slash(str(params["daemon_options"].get("data-root") or params["data_root"]))
    found = {"docker_data_root": data_root}
    beside = os.path.join(os.path.dirname(data_root), "containerd") if data_root else ""
    found["docker_containerd_root"] = without_final_slash(params["containerd_root"]) or beside
    return {variable: path for variable, path in found.items() if path}


def without_final_slash(path: str) -> str:
    return path.rstrip("/") or path


def containerd_root_of(text: str | None) -> str:
    """Return the root in containerd's configuration; only lines before the first table are options of containerd itself."""
    own = re.split(r"^\s*\[", text or "", maxsplit=1, flags=re.MULTILINE)[0]
    found = re.search(r"""^\s*root\s*=\s*["']([^"']*)["']""", own, re.MULTILINE)
    return os.path.normpath(found[1]) if found else CONTAINERD_ROOT


def layers_of(config: str | None) -> str:
    """Return the directory in which containerd with this configuration stores image layers."""
    return f"{containerd_root_of(config)}/io.containerd.content.v1.content/blobs/sha256"


def held(host: Host) -> tuple[str, ...]:
    """Return the packages that the role has put on hold."""
    return host.memory.held if host.memory else ()


def held_with(names: t.Iterable[str]) -> list[str]:
    """Return the packages to hold: docker's own. A hold on shared libraries would keep back their security fixes."""
    return [name for name in names if name.startswith(("docker", "containerd"))]


def glob_of(params: Params, edition: str) -> str:
    version = params["version"]
    # 28.5 means 28.5.1 and 28.5-1, not 28.50. Without a final character class apt would add a star of its own.
    rest = "*" if "-" in version else "[!0-9]*[0-9A-Za-z]"
    return f"{'' if ':' in version else EPOCHS[edition]}{version}{rest}"


def pinned(host: Host, params: Params, edition: str) -> list[str]:
    """Return the installed packages whose version is not the requested one."""
    names = [name for name in params["packages"][edition] if name in VERSIONED and name in host.packages]
    wrong = [name for name in names if not fnmatch.fnmatchcase(host.packages[name].version, glob_of(params, edition))]
    return wrong if params["version"] else []

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


def coming_parts(parts: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, str]:
    """Parts by the name of their role as the files that they will be."""
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
    requirements: list[Problem] = dataclasses.field(default_factory=list)
    findings: list[Finding] = dataclasses.field(default_factory=list)
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

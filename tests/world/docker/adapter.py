# SPDX-License-Identifier: GPL-3.0-or-later
"""Hand the cases to what reads and plans docker."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import Package
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import (
    checks,
    facts,
    model,
    rootless,
    verify,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.model import Daemon, Host, Place
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.plan import plan_present

from tests.unit.support import docker as support

PARAMS: Any = {
    **support.PARAMS,
    "packages": {"docker.io": ["docker.io", "docker-cli"], "docker-ce": ["docker-ce", "docker-ce-cli"]},
}


def host(version: str, **fields: Any) -> Host:
    name = "docker.io" if ":" not in version else "docker-ce"
    client = "docker-cli" if name == "docker.io" else "docker-ce-cli"
    return Host(packages={name: Package(version), client: Package(version)}, **fields)


def info_of(info: Mapping[str, Any], networks: Sequence[Mapping[str, Any]] = ()) -> Daemon:
    """Read what a running docker answers."""
    answer = {"Containers": 0, "Images": 0, "DockerRootDir": "/var/lib/docker", **info}
    answers = {"/info": answer, "/networks": networks}
    with mock.patch.multiple(facts, ask=answers.__getitem__, running_containers=list):
        return facts.read_daemon(0.0, ["/var/lib/docker"])


def refusals(
    version: str,
    config: Mapping[str, Any] | None = None,
    info: Mapping[str, Any] | None = None,
    exec_start: str = "",
    routes: str = "",
    networks: Sequence[Mapping[str, Any]] = (),
    params: Mapping[str, Any] | None = None,
) -> list[str]:
    """Return the variables that the plan refuses."""
    daemon = info_of(info or {}, networks)
    found = host(
        version,
        config=json.dumps(config) if config else None,
        daemon=daemon,
        networks=facts.parse_routes(routes, daemon.bridges),
        arguments=facts.read_service({"ExecStart": exec_start})[2],
    )
    return [row["variable"] for row in plan_present(found, PARAMS | dict(params or {})).requirements]


def conflicts(packages: Sequence[str], others: int = 0) -> list[str]:
    """Return the variables that are refused on a host with these packages, as name=version, and running containers of others."""
    installed = {name: Package(version) for name, version in (text.split("=") for text in packages)}
    found = Host(packages=installed, others=others)
    return [row["variable"] for row in plan_present(found, PARAMS).requirements]


def unreadable(text: str) -> list[str]:
    """Return the variables that are refused on a host with this daemon.json."""
    return [row["variable"] for row in plan_present(host("5:28.5.2-1", config=text), PARAMS).requirements]


def options(
    version: str, keys: Sequence[str], info: Mapping[str, Any] | None = None, params: Mapping[str, Any] | None = None
) -> Any:
    """Return some of the options that daemon.json gets."""
    found = plan_present(host(version, daemon=info_of(info) if info else None), PARAMS | dict(params or {})).options
    return {key: found.get(key) for key in keys}


def disk(kind: str) -> list[str]:
    """Return the variables that are refused for data on a file system."""
    places: Any = {path: Place(mount="/data", kind=kind) for path in ("/data/docker", "/data/containerd")}
    found = plan_present(host("5:28.5.2-1", places=places), PARAMS | {"data_root": "/data/docker"})
    return [row["variable"] for row in found.requirements]


def daemon_arguments(exec_start: str, process: Sequence[str] = ()) -> list[str]:
    """Return the arguments of dockerd: as systemd shows the unit, and as the running process has them."""
    with mock.patch.object(Tree, "text", return_value="".join(f"{word}\0" for word in process)):
        return facts.read_service({"ActiveState": "active", "ExecStart": exec_start})[2]


def swarm(info: Mapping[str, Any]) -> bool:
    return info_of(info).swarm


def gpu_containers(inspected: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(facts.describe_containers(map(dict, inspected))[1])


def refused_by_dockerd(message: str, given: Mapping[str, Any]) -> list[str]:
    return [row["variable"] for row in checks.refusal_problems(message, PARAMS | {"daemon_options": given})]


def containerd_root(text: str) -> str:
    return model.containerd_root_of(text)


def sources(files: Mapping[str, str], url: str) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            file = Path(folder, path.lstrip("/"))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return facts.read_sources(Tree(folder), url)


def ranges_added(subuid: str, user: str, uid: int) -> list[str]:
    """Return the ranges of ids that a user of rootless docker gets."""
    users: Any = {user: rootless.User(uid, lingers=True, active=True)}
    found = rootless.plan(users, [user], {}, {"--add-subuids": subuid}, False)
    return [command[2] for command in found.commands if command[0] == "usermod"]


def user_names(names: Sequence[str]) -> list[str]:
    """Return the names that docker_users refuses."""
    return [name for name in names if list(checks.input_problems(PARAMS | {"users": [name]}))]


def storage(info: Mapping[str, Any], disks: Mapping[str, str]) -> list[str]:
    """Return the directories that the finding on storage names."""

    def run(command: list[str], **_options: Any) -> tuple[int, str, str]:
        if command[:2] == ["docker", "info"]:
            return 0, json.dumps(info), ""
        return 0, f"{disks.get(command[-1], '/ ext4 9G')}\n" if command[0] == "findmnt" else "", ""

    request: Any = {
        "data_root": "",
        "containerd_root": "",
        "rootless_users": [],
        "state": "present",
        "registry_mirrors": [],
    }
    row = verify.Clients(run, request, {}).storage()
    return [path for path in disks if path in row["evidence"]]


def differences(info: Mapping[str, Any], config: Mapping[str, Any], links: Mapping[str, str]) -> list[str]:
    """Return the options that are reported as not in force; @ is a directory with these links."""
    with tempfile.TemporaryDirectory() as folder:
        top = str(Path(folder).resolve())
        for link, target in links.items():
            Path(top, target).mkdir(parents=True)
            Path(top, link).symlink_to(Path(top, target))
        for part in (info, config):
            for value in part.values():
                if isinstance(value, str) and value.startswith("@"):
                    Path(top, value[2:]).mkdir(parents=True, exist_ok=True)
        at = lambda part: json.loads(json.dumps(part).replace("@", top))  # noqa: E731
        return verify.other_options(at(info), at(config), [])

# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that are refused by the name of their variable."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import model as docker
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.checks import disruption, refusal_problems
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.model import Daemon, Host, Place

from tests.unit.plugins.module_utils._docker.test_plan import (
    BUSY,
    DEBIAN13,
    FRESH,
    GPU,
    IDLE,
    PARAMS,
    faults,
    request_of,
)


@pytest.mark.parametrize(
    ("daemon", "change", "message"),
    [
        (None, {"mtu": 1}, ""),
        (IDLE, {"mtu": 1}, ""),
        (Daemon(), {"mtu": 1}, ""),
        (BUSY, {"mtu": 1}, ""),
        (BUSY, {"data-root": "/data"}, "data-root would change"),
        (dataclasses.replace(BUSY, live_restore=False), {"mtu": 1}, "live-restore is not in effect"),
        (dataclasses.replace(BUSY, swarm=True), {"mtu": 1}, "swarm"),
        (GPU, {"mtu": 1}, "containers use a GPU: train"),
        (Daemon(answers=False), {"mtu": 1}, "does not answer"),
    ],
)
def test_disruption_of_a_restart(daemon: Daemon | None, change: Any, message: str) -> None:
    reason = disruption(Host(packages=DEBIAN13, daemon=daemon), {}, change)
    assert message in reason
    assert bool(reason) == bool(message)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (Place("/data", read_only=True), "on /data, which is read-only"),
        (Place("/data", free_bytes=1 << 30), "has 1024 MiB free of the 5120 MiB"),
        (Place("/data", kind="nfs4"), "nfs4, which docker cannot use"),
        (Place("/data", no_exec=True), "mounted noexec"),
        (Place("/data", file=True), "a file is in the way"),
    ],
)
def test_a_disk_that_docker_cannot_use_is_refused(place: Place, message: str) -> None:
    places = {"/data/docker": place, "/data/containerd": Place("/data")}
    ((variable, problem),) = faults(Host(packages=DEBIAN13, places=places), data_root="/data/docker")
    assert variable == "docker_data_root"
    assert message in problem


def test_a_disk_that_docker_has_filled_since_is_not_refused() -> None:
    full = Place("/data", free_bytes=0)
    host = Host(
        packages=DEBIAN13,
        daemon=dataclasses.replace(BUSY, root="/data/docker"),
        places={"/data/docker": full, "/data/containerd": full},
        containerd_config='root = "/data/containerd"\n',
    )
    assert faults(host, data_root="/data/docker") == []


def test_stored_data_is_not_left_behind_unasked() -> None:
    places = {"/data/docker": Place("/data"), "/data/containerd": Place("/data")}
    host = Host(packages=DEBIAN13, daemon=dataclasses.replace(IDLE, stored=7), places=places)

    found = dict(faults(host, data_root="/data/docker"))

    assert "7 containers and images in /var/lib/docker" in found["docker_data_root"]
    assert faults(host, data_root="/data/docker", allow_disruption=True) == []


def test_data_of_a_stopped_docker_is_not_left_behind() -> None:
    places = {"/data/docker": Place("/data"), "/data/containerd": Place("/data")}
    host = Host(packages=DEBIAN13, places=places, stopped=docker.StoppedDaemon("/var/lib/docker", stored=2))
    problems = dict(faults(host, data_root="/data/docker"))
    assert "2 containers and images in /var/lib/docker" in problems["docker_data_root"]
    moved = dataclasses.replace(host, stopped=docker.StoppedDaemon("/data/docker", stored=2))
    assert faults(moved, data_root="/data/docker") == []


def test_containerd_root_may_change_without_stored_layers() -> None:
    places = {"/data/docker": Place("/data"), "/data/containerd": Place("/data")}
    host = Host(packages=DEBIAN13, places=places, daemon=Daemon(root="/data/docker", stored=3))
    assert faults(host, data_root="/data/docker") == []
    with_containerd = dataclasses.replace(host, containerd_stored=5)
    ((variable, problem),) = faults(with_containerd, data_root="/data/docker")
    assert variable == "docker_containerd_root"
    assert "5 layers in /var/lib/containerd" in problem


def test_mirror_with_a_password_is_refused_without_it() -> None:
    ((variable, text),) = faults(FRESH, registry_mirrors=["https://me:hunter2@mirror.example/debian"])
    assert variable == "docker_registry_mirrors"
    assert "hunter2" not in text


@pytest.mark.parametrize(
    ("request_", "variable"),
    [
        ({"data_root": "docker"}, "docker_data_root"),
        ({"data_root": "/"}, "docker_data_root"),
        ({"data_root": "/data/../docker"}, "docker_data_root"),
        ({"data_root": "/data/d", "containerd_root": "/data/d/containerd"}, "docker_containerd_root"),
        ({"bind_ip": "localhost"}, "docker_bind_ip"),
        ({"shm_size": "lots"}, "docker_shm_size"),
        ({"log_max_size": "50 MB"}, "docker_log_max_size"),
        ({"log_max_files": 0}, "docker_log_max_files"),
        ({"registry_mirrors": ["mirror.example"]}, "docker_registry_mirrors"),
        ({"users": ["ada lovelace"]}, "docker_users"),
        ({"version": "newest"}, "docker_version"),
        ({"address_pools": [{"base": "10.250.0.1/16", "size": 24}]}, "docker_address_pools"),
        ({"address_pools": [{"base": "10.250.0.0/16", "size": 8}]}, "docker_address_pools"),
    ],
)
def test_invalid_option_is_refused_by_its_variable(request_: Any, variable: str) -> None:
    found = faults(FRESH, **request_)
    assert variable in [name for name, _problem in found]


@pytest.mark.parametrize(("text", "message"), [('{"debug": true,}', "is not JSON: "), ("[]", "no object")])
def test_invalid_json_on_the_host_is_refused_by_its_path(text: str, message: str) -> None:
    ((variable, problem),) = faults(Host(packages=DEBIAN13, config=text))
    assert variable == "/etc/docker/daemon.json"
    assert message in problem


@pytest.mark.parametrize("kind", ["link", "directory"])
def test_daemon_json_that_is_not_a_file_is_refused(kind: str) -> None:
    ((variable, problem),) = faults(Host(packages={}, config_kind=kind))
    assert variable == "/etc/docker/daemon.json"
    assert f"is a {kind}" in problem


@pytest.mark.parametrize("text", [None, "", " \n", "\ufeff", "\ufeff{}"])
def test_an_empty_file_has_no_options(text: str | None) -> None:
    assert faults(Host(packages=DEBIAN13, config=text)) == []


@pytest.mark.parametrize(
    ("given", "variable"), [({"bogus": 1}, "docker_daemon_options"), ({}, "/etc/docker/daemon.json")]
)
def test_an_unknown_option_is_refused_by_its_name(given: Any, variable: str) -> None:
    message = (
        "unable to configure the Docker daemon with file /etc/docker/daemon.json:"
        " the following directives don't match any configuration option: bogus"
    )
    (fault,) = refusal_problems(message, request_of(daemon_options=given))
    assert fault["variable"] == variable
    assert "does not know: bogus" in fault["problem"]
    assert list(refusal_problems("", PARAMS)) == []


def test_hosts_in_daemon_json_is_refused() -> None:
    ((variable, problem),) = faults(Host(packages=DEBIAN13), daemon_options={"hosts": ["tcp://0.0.0.0:2375"]})
    assert variable == "docker_daemon_options"
    assert "would not start" in problem


def test_a_network_of_the_host_is_no_pool() -> None:
    host = Host(packages=DEBIAN13, networks={"10.250.3.0/24": "eth0"})
    ((variable, problem),) = faults(host)
    assert variable == "docker_address_pools"
    assert "eth0" in problem


def test_the_other_edition_is_not_replaced() -> None:
    ((variable, problem),) = faults(Host(packages=DEBIAN13), edition="docker-ce")
    assert variable == "docker_edition"
    assert "docker.io is installed" in problem


def test_unknown_version_is_refused_with_available_versions() -> None:
    host = dataclasses.replace(FRESH, available=["26.1.5+dfsg1-9"])
    ((variable, problem),) = faults(host, version="99")
    assert variable == "docker_version"
    assert "is 99, which apt does not have of docker.io" in problem
    assert faults(host, version="26.1") == []


@pytest.mark.parametrize(
    ("users", "members", "unknown", "message"),
    [
        (["carol", "root"], [], (), "names root, whose docker is the one of the host"),
        (["carol"], ["carol"], (), "names users who are in docker_users as well, and so can become root: carol"),
        (["carol", "dave"], [], ("dave",), "names no user of this host: dave"),
    ],
)
def test_impossible_rootless_users_are_refused(
    users: list[str], members: list[str], unknown: tuple[str, ...], message: str
) -> None:
    host = dataclasses.replace(FRESH, unknown_rootless_users=unknown)
    assert faults(host, rootless_users=users, users=members) == [("docker_rootless_users", message)]


def test_passwords_of_addresses_are_not_shown() -> None:
    message = 'invalid proxy "http://alice:s3cret@proxy.example:x"'
    (refused,) = refusal_problems(message, PARAMS)
    assert "invalid proxy" in refused["problem"] and "s3cret" not in refused["problem"]
    ((_variable, problem),) = faults(FRESH, registry_mirrors=["https://alice:s3cret@mirror.example"])
    assert "mirror.example" in problem and "s3cret" not in problem

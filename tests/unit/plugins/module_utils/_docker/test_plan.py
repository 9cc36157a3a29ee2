# SPDX-License-Identifier: GPL-3.0-or-later
"""One owner of daemon.json, a restart only where a reload is not enough, and requests that are refused by name."""

from __future__ import annotations

import dataclasses
import fnmatch
import json
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import Package
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import plan as docker
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.options import restart_part
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.plan import (
    Daemon,
    Host,
    Memory,
    Place,
    Plan,
    containerd_root_of,
    disruption,
    parse_routes,
    place_of,
    plan_absent,
    plan_present,
    refusal_faults,
    with_containerd_root,
)

PARAMS: dict[str, Any] = {
    "state": "present",
    "edition": "auto",
    "version": "",
    "hold": False,
    "packages": {
        "docker.io": ["docker.io", "docker-cli"],
        "docker-ce": ["docker-ce", "docker-ce-cli", "containerd.io", "ca-certificates"],
    },
    "repository": {
        "url": "https://repo.example/linux/debian",
        "key_url": "https://repo.example/gpg",
        "fingerprints": ["A" * 40],
        "suite": "trixie",
        "architecture": "amd64",
    },
    "users": [],
    "data_root": "",
    "containerd_root": "",
    "free_bytes": 5 << 30,
    "log_driver": "local",
    "log_max_size": "50m",
    "log_max_files": 5,
    "live_restore": True,
    "bind_ip": "127.0.0.1",
    "address_pools": [{"base": "10.250.0.0/16", "size": 24}],
    "registry_mirrors": [],
    "shm_size": "1g",
    "daemon_options": {},
    "allow_disruption": False,
}
FRESH = Host(packages={})
DEBIAN12 = {
    "docker.io": Package("20.10.24+dfsg1-1"),
    "docker-cli": Package("20.10.24"),
    "containerd": Package("1.6.20"),
}
DEBIAN13 = {
    "docker.io": Package("26.1.5+dfsg1-9"),
    "docker-cli": Package("26.1.5+dfsg1-9"),
    "containerd": Package("1.7"),
}
IDLE = Daemon(live_restore=True)
BUSY = Daemon(live_restore=True, running=("web",), stored=2)
GPU = Daemon(live_restore=True, running=("train", "web"), gpu=("train",), stored=3)


def asked(**request: Any) -> dict[str, Any]:
    return {**PARAMS, **request}


def content(plan: Plan, path: str) -> Any:
    files = [*plan.package_files, *(plan.files_afterwards or plan.files)]
    found = next(entry["content"] for entry in files if entry["path"] == path)
    return json.loads(found) if path.endswith(".json") else found


def after(plan: Plan, host: Host, **more: Any) -> Host:
    """The host once a plan was carried out."""
    memory = content(plan, docker.MEMORY)
    return dataclasses.replace(
        host,
        packages=host.packages or DEBIAN13,
        config=json.dumps(content(plan, docker.DAEMON_JSON)),
        original=host.original or host.config,
        memory=Memory(memory["host"], memory["written"], tuple(memory["users"]), tuple(memory["held"])),
        brought=tuple(content(plan, docker.BROUGHT)),
        **more,
    )


def docker_unit(plan: Plan) -> dict[str, Any]:
    return next(unit for unit in plan.units if unit["name"] == "docker.service")


def faults(host: Host, **request: Any) -> list[tuple[str, str]]:
    return [(fault["variable"], fault["problem"]) for fault in plan_present(host, asked(**request)).requirements]


# --- One owner of daemon.json ---


def test_a_fresh_host_gets_the_defaults() -> None:
    plan = plan_present(FRESH, PARAMS)

    assert plan.requirements == []
    assert plan.install == ["docker.io", "docker-cli"]
    assert content(plan, docker.DAEMON_JSON) == {
        "default-address-pools": [{"base": "10.250.0.0/16", "size": 24}],
        "default-shm-size": "1g",
        "ip": "127.0.0.1",
        "live-restore": True,
        "log-driver": "local",
        "log-opts": {"max-file": "5", "max-size": "50m"},
    }


def test_host_defaults_options_and_parts_are_merged_in_this_order() -> None:
    host = Host(
        packages=DEBIAN13,
        config='{"dns": ["192.0.2.1"], "default-shm-size": "64m", "runtimes": {"crun": {"path": "crun"}}}',
        parts={
            f"{docker.PARTS}/nvidia_container_toolkit.json": '{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}'
        },
    )

    options = plan_present(host, asked(daemon_options={"debug": True, "runtimes": {"kata": {"path": "kata"}}})).options

    assert options["dns"] == ["192.0.2.1"]
    assert options["default-shm-size"] == "1g"
    assert options["debug"] is True
    assert sorted(options["runtimes"]) == ["crun", "kata", "nvidia"]


def test_what_is_added_by_hand_stays_and_what_the_role_stops_writing_goes() -> None:
    host = Host(packages=DEBIAN13, config='{"dns": ["192.0.2.1"]}')
    host = after(plan_present(host, asked(daemon_options={"debug": True, "mtu": 1400})), host)
    by_hand = {**json.loads(host.config or ""), "dns-search": ["lab.example"]}
    host = dataclasses.replace(host, config=json.dumps(by_hand))

    for _run in range(3):
        plan = plan_present(host, PARAMS)
        host = after(plan, host)

    assert plan.options["dns"] == ["192.0.2.1"]
    assert plan.options["dns-search"] == ["lab.example"]
    assert plan.options.keys().isdisjoint({"debug", "mtu"})
    assert plan.files_afterwards == []


def test_what_a_reload_would_leave_on_stands_as_nothing_until_docker_has_read_it() -> None:
    host = after(plan_present(FRESH, asked(daemon_options={"debug": True})), FRESH, daemon=IDLE)

    plan = plan_present(host, PARAMS)

    files = {file["path"]: file["content"] for file in plan.files}
    last = {file["path"]: file["content"] for file in plan.files_afterwards}
    assert json.loads(files[docker.DAEMON_JSON])["debug"] is False
    assert "debug" not in json.loads(last[docker.DAEMON_JSON])
    # A run that is cut short in between is taken up, and nothing but these two is written twice.
    assert "debug" in json.loads(files[docker.MEMORY])["written"]
    assert {path for path in files if files[path] != last[path]} == {docker.DAEMON_JSON, docker.MEMORY}


def test_a_second_plan_is_the_same() -> None:
    first = plan_present(Host(packages=DEBIAN13), asked(users=["ada"], hold=True))
    held = {name: package._replace(hold=True) for name, package in DEBIAN13.items()}
    host = dataclasses.replace(after(first, Host(packages=DEBIAN13)), group=("ada",), packages=held)

    second = plan_present(host, asked(users=["ada"], hold=True))

    assert (second.files, second.package_files) == (first.files, first.package_files)
    assert (second.install, second.hold, second.unhold, second.groups) == ([], [], [], [])


# --- Reload and restart ---


@pytest.mark.parametrize(
    ("change", "restart"),
    [
        ({"registry_mirrors": ["https://mirror.example"]}, False),
        ({"live_restore": False}, False),
        ({"daemon_options": {"debug": True, "labels": ["rack=1"], "max-concurrent-downloads": 6}}, False),
        ({"daemon_options": {"runtimes": {"nvidia": {"path": "x"}}, "default-runtime": "nvidia"}}, False),
        ({"daemon_options": {"features": {"buildkit": True}}}, False),
        ({"daemon_options": {"features": {"cdi": True}}}, True),
        ({"daemon_options": {"mtu": 1400}}, True),
        ({"log_max_files": 3}, True),
        ({"shm_size": "2g"}, True),
        ({"bind_ip": "192.0.2.7"}, True),
    ],
)
def test_only_what_dockerd_reads_at_its_start_changes_the_file_that_restarts_it(
    change: dict[str, Any], restart: bool
) -> None:
    host = Host(packages=DEBIAN13)
    before = plan_present(host, PARAMS)

    plan = plan_present(after(before, host), asked(**change))

    assert content(plan, docker.DAEMON_JSON) != content(before, docker.DAEMON_JSON)
    assert (content(plan, docker.RESTART) != content(before, docker.RESTART)) is restart
    assert docker_unit(plan)["reload_on"] == [docker.DAEMON_JSON]
    assert docker.DAEMON_JSON not in docker_unit(plan)["restart_on"]


def test_the_first_run_on_a_docker_that_has_all_this_loaded_does_not_restart_it() -> None:
    config = json.dumps({**restart_part(plan_present(Host(packages=DEBIAN13), PARAMS).options)})
    host = Host(packages=DEBIAN13, config=config, daemon=IDLE)

    assert docker_unit(plan_present(host, PARAMS))["loaded"] == [docker.RESTART]
    assert "loaded" not in docker_unit(plan_present(dataclasses.replace(host, settled=False), PARAMS))
    assert "loaded" not in docker_unit(plan_present(host, asked(shm_size="2g")))


@pytest.mark.parametrize(
    ("daemon", "change", "words"),
    [
        (None, {"mtu": 1}, ""),
        (IDLE, {"mtu": 1}, ""),
        (Daemon(), {"mtu": 1}, ""),
        (BUSY, {"mtu": 1}, ""),
        (BUSY, {"data-root": "/data"}, "data-root would change"),
        (dataclasses.replace(BUSY, live_restore=False), {"mtu": 1}, "live-restore is not in force"),
        (dataclasses.replace(BUSY, swarm=True), {"mtu": 1}, "swarm"),
        (GPU, {"mtu": 1}, "containers use a GPU: train"),
        (Daemon(answers=False), {"mtu": 1}, "does not answer"),
    ],
)
def test_what_a_restart_does_harm_to(daemon: Daemon | None, change: dict[str, Any], words: str) -> None:
    reason = disruption(Host(packages=DEBIAN13, daemon=daemon), {}, change)
    assert words in reason
    assert bool(reason) == bool(words)


@pytest.mark.parametrize(("allowed", "waits"), [(False, "containers use a GPU: train"), (True, "")])
def test_a_restart_under_a_gpu_container_is_announced_and_not_done(allowed: bool, waits: str) -> None:
    host = Host(packages=DEBIAN13, daemon=GPU)

    plan = plan_present(after(plan_present(host, PARAMS), host), asked(shm_size="2g", allow_disruption=allowed))

    assert docker_unit(plan)["may_restart"] is allowed
    assert plan.restart_waits == waits
    assert plan.requirements == []


def test_of_containers_it_is_told_who_has_a_gpu() -> None:
    inspected = [
        {"Name": "/cdi", "HostConfig": {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]}]}},
        {"Name": "/runtime", "HostConfig": {"Runtime": "nvidia", "DeviceRequests": None}},
        {"Name": "/nodes", "HostConfig": {"Devices": [{"PathOnHost": "/dev/nvidia0"}]}},
        {"Name": "/web", "HostConfig": {"Runtime": "runc", "Devices": [{"PathOnHost": "/dev/fuse"}]}},
    ]
    assert docker.describe_containers(inspected) == (("cdi", "nodes", "runtime", "web"), ("cdi", "nodes", "runtime"))


# --- Storage ---


def test_storage_takes_containerd_along_and_waits_for_the_disk() -> None:
    places = {"/data/docker": Place("/data"), "/data/containerd": Place("/data")}
    host = Host(packages=DEBIAN13, places=places, containerd_config="version = 2\n[plugins]\n")

    plan = plan_present(host, asked(data_root="/data/docker"))

    assert plan.requirements == []
    assert plan.options["data-root"] == "/data/docker"
    assert content(plan, docker.CONTAINERD_CONFIG) == 'version = 2\nroot = "/data/containerd"\n[plugins]\n'
    assert "RequiresMountsFor=/data/docker /data/containerd" in content(plan, docker.DROP_IN)
    assert [unit["name"] for unit in plan.units] == ["containerd.service", "docker.service"]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (Place("/data", read_only=True), "on /data, which is read-only"),
        (Place("/data", free_bytes=1 << 30), "has 1024 MiB left of the 5120 MiB"),
        (Place("/data", kind="nfs4"), "nfs4, which docker cannot use"),
        (Place("/data", no_exec=True), "mounted noexec"),
        (Place("/data", file=True), "lies a file"),
    ],
)
def test_a_disk_that_docker_cannot_use_is_refused(place: Place, words: str) -> None:
    places = {"/data/docker": place, "/data/containerd": Place("/data")}
    ((variable, problem),) = faults(Host(packages=DEBIAN13, places=places), data_root="/data/docker")
    assert variable == "docker_data_root"
    assert words in problem


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


def test_data_of_a_docker_that_does_not_run_is_not_left_behind_either() -> None:
    places = {"/data/docker": Place("/data"), "/data/containerd": Place("/data")}
    host = Host(packages=DEBIAN13, places=places, left=docker.Left("/var/lib/docker", stored=2))
    problems = dict(faults(host, data_root="/data/docker"))
    assert "2 containers and images in /var/lib/docker" in problems["docker_data_root"]
    there = dataclasses.replace(host, left=docker.Left("/data/docker", stored=2))
    assert faults(there, data_root="/data/docker") == []


def test_containerds_directory_may_change_where_docker_keeps_its_images_itself() -> None:
    places = {"/data/docker": Place("/data"), "/data/containerd": Place("/data")}
    host = Host(packages=DEBIAN13, places=places, daemon=Daemon(root="/data/docker", stored=3))
    assert faults(host, data_root="/data/docker") == []
    with_containerd = dataclasses.replace(host, containerd_stored=5)
    ((variable, problem),) = faults(with_containerd, data_root="/data/docker")
    assert variable == "docker_containerd_root"
    assert "5 layers in /var/lib/containerd" in problem


def test_absent_is_refused_while_containers_run_on_without_docker() -> None:
    host = after(plan_present(Host(packages=DEBIAN13), PARAMS), Host(packages=DEBIAN13), left=docker.Left(running=1))
    (refused,) = plan_absent(host, PARAMS).requirements
    assert "1 containers run on without docker" in refused["problem"]


# --- Secrets ---


@pytest.mark.parametrize(
    ("request_", "mode", "expected"),
    [
        ({}, None, None),
        ({}, 0o644, None),
        ({}, 0o600, "0600"),
        ({}, 0o640, "0640"),
        ({"daemon_options": {"proxies": {"https-proxy": "http://alice:s3cret@proxy.example:3128"}}}, 0o644, "0600"),
    ],
)
def test_what_others_may_not_read_stays_so(request_: dict[str, Any], mode: int | None, expected: str | None) -> None:
    plan = plan_present(Host(packages=DEBIAN13, config="{}", config_mode=mode), asked(**request_))
    files = {file["path"]: file for file in plan.files}
    assert files[docker.DAEMON_JSON].get("mode") == expected
    assert files[docker.DAEMON_JSON].get("secret", False) is plan.secret is (expected is not None)
    for path in (docker.RESTART, docker.MEMORY):
        assert (files[path]["mode"], files[path]["secret"]) == ("0600", plan.secret)


def test_stored_data_is_not_left_behind_where_the_directory_is_no_longer_named() -> None:
    places = {"/data/docker": Place("/data"), "/data/containerd": Place("/data")}
    host = Host(packages=DEBIAN13, places=places)
    there = after(
        plan_present(host, asked(data_root="/data/docker")),
        host,
        containerd_config='root = "/data/containerd"\n',
        containerd_managed=True,
        containerd_stored=5,
        daemon=Daemon(root="/data/docker", stored=3),
    )

    assert faults(there, data_root="/data/docker") == []
    assert [variable for variable, _problem in faults(there)] == ["docker_data_root", "docker_containerd_root"]
    assert "/var/lib/docker" in plan_absent(there, PARAMS).requirements[0]["problem"]


@pytest.mark.parametrize(
    ("before", "after_"),
    [
        (None, 'version = 2\nroot = "/d"\n'),
        ("", 'version = 2\nroot = "/d"\n'),
        ("version = 3", 'version = 3\nroot = "/d"\n'),
        (
            'root = "/old"\nstate = "/run/c"\n[a]\nroot = "mine"\n',
            'root = "/d"\nstate = "/run/c"\n[a]\nroot = "mine"\n',
        ),
        ('[a]\n  root = "mine"\n', 'root = "/d"\n[a]\n  root = "mine"\n'),
        ('#root = "/x"\nversion = 2\n', '#root = "/x"\nversion = 2\nroot = "/d"\n'),
    ],
)
def test_only_the_root_of_containerd_changes(before: str | None, after_: str) -> None:
    assert with_containerd_root(before, "/d") == after_
    assert with_containerd_root(after_, "/d") == after_
    assert containerd_root_of(after_) == "/d"


def test_the_root_of_a_table_is_not_that_of_containerd() -> None:
    assert containerd_root_of('version = 2\n[proxy]\nroot = "/other"\n') == "/var/lib/containerd"


MOUNTS = """\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 8:2 / /data rw - xfs /dev/sdb1 rw
23 21 8:3 / /data/with\\040space rw - vfat /dev/sdc1 rw
24 21 8:4 / /database rw - nfs4 server:/x rw
25 21 8:5 / /data rw - ext4 /dev/sdd1 rw
"""


@pytest.mark.parametrize(
    ("path", "mount", "kind"),
    [
        ("/srv", "/", "ext4"),
        ("/data/docker", "/data", "ext4"),
        ("/data", "/data", "ext4"),
        ("/data/with space/x", "/data/with space", "vfat"),
    ],
)
def test_the_file_system_of_a_path(path: str, mount: str, kind: str) -> None:
    found = place_of(path, MOUNTS)
    assert (found.mount, found.kind) == (mount, kind)


# --- Bad input ---


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
def test_a_wrong_request_is_refused_by_the_name_of_its_variable(request_: dict[str, Any], variable: str) -> None:
    found = faults(FRESH, **request_)
    assert variable in [name for name, _problem in found]


@pytest.mark.parametrize(("text", "words"), [('{"debug": true,}', "is not JSON: "), ("[]", "no object")])
def test_bad_json_on_the_host_is_refused_with_its_place(text: str, words: str) -> None:
    ((variable, problem),) = faults(Host(packages=DEBIAN13, config=text))
    assert variable == "/etc/docker/daemon.json"
    assert words in problem


@pytest.mark.parametrize("kind", ["link", "directory"])
def test_what_is_no_file_is_refused_before_anything_is_installed(kind: str) -> None:
    ((variable, problem),) = faults(Host(packages={}, config_kind=kind))
    assert variable == "/etc/docker/daemon.json"
    assert f"is a {kind}" in problem


@pytest.mark.parametrize("text", [None, "", " \n", "\ufeff", "\ufeff{}"])
def test_an_empty_file_has_no_options(text: str | None) -> None:
    assert faults(Host(packages=DEBIAN13, config=text)) == []


@pytest.mark.parametrize(
    ("given", "variable"), [({"bogus": 1}, "docker_daemon_options"), ({}, "/etc/docker/daemon.json")]
)
def test_an_unknown_option_is_refused_by_its_name(given: dict[str, Any], variable: str) -> None:
    words = (
        "unable to configure the Docker daemon with file /etc/docker/daemon.json:"
        " the following directives don't match any configuration option: bogus"
    )
    (fault,) = refusal_faults(words, asked(daemon_options=given))
    assert fault["variable"] == variable
    assert "does not know: bogus" in fault["problem"]
    assert list(refusal_faults("", PARAMS)) == []


def test_a_listening_address_in_the_file_would_keep_docker_from_starting() -> None:
    ((variable, problem),) = faults(Host(packages=DEBIAN13), daemon_options={"hosts": ["tcp://0.0.0.0:2375"]})
    assert variable == "docker_daemon_options"
    assert "would not start" in problem


def test_a_network_of_the_host_is_no_pool() -> None:
    host = Host(packages=DEBIAN13, networks={"10.250.3.0/24": "eth0"})
    ((variable, problem),) = faults(host)
    assert variable == "docker_address_pools"
    assert "eth0" in problem


def test_routes_are_read_without_dockers_own() -> None:
    text = (
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
        "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\n"
        "eth0\t0000FA0A\t00000000\t0001\t0\t0\t0\t0000FFFF\n"
        "docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\n"
    )
    assert parse_routes(text) == {"10.250.0.0/16": "eth0"}


def test_the_other_edition_is_not_replaced() -> None:
    ((variable, problem),) = faults(Host(packages=DEBIAN13), edition="docker-ce")
    assert variable == "docker_edition"
    assert "docker.io is installed" in problem


# --- Packages ---


def test_docker_ce_comes_with_its_repository_unless_the_host_has_it() -> None:
    plan = plan_present(FRESH, asked(edition="docker-ce"))
    assert plan.repository["url"] == "https://repo.example/linux/debian"
    assert "Signed-By: /etc/apt/keyrings/rigwright-docker.asc" in content(plan, docker.SOURCE)

    by_hand = Host(packages={}, sources=["/etc/apt/sources.list.d/docker.list"])
    assert plan_present(by_hand, asked(edition="docker-ce")).repository == {}


def test_a_version_is_pinned_installed_and_left_alone() -> None:
    plan = plan_present(FRESH, asked(edition="docker-ce", version="28.5"))
    assert plan.install == [
        "docker-ce=5:28.5[!0-9]*[0-9A-Za-z]",
        "docker-ce-cli=5:28.5[!0-9]*[0-9A-Za-z]",
        "containerd.io",
        "ca-certificates",
    ]
    assert content(plan, docker.PREFERENCES) == (
        "Package: docker-ce docker-ce-cli\nPin: version 5:28.5[!0-9]*[0-9A-Za-z]\nPin-Priority: 1001\n"
    )

    there = {
        name: Package(f"5:28.5.{number}-1~debian.13") for number, name in enumerate(["docker-ce", "docker-ce-cli"])
    }
    there = {**there, "containerd.io": Package("2.1"), "ca-certificates": Package("2025")}
    plan = plan_present(Host(packages=there), asked(version="28.5", hold=True))
    assert plan.install == []
    assert plan.hold == ["docker-ce", "docker-ce-cli", "containerd.io"]


@pytest.mark.parametrize(
    ("version", "there", "meant"),
    [
        ("28.5", "5:28.5.1-1~debian.13~trixie", True),
        ("28.5", "5:28.50.0-1~debian.13~trixie", False),
        ("28", "5:28.5.1-1~debian.13~trixie", True),
        ("2", "5:28.5.1-1~debian.13~trixie", False),
        ("28.5.1-1~debian.13~trixie", "5:28.5.1-1~debian.13~trixie", True),
    ],
)
def test_a_version_means_whole_numbers(version: str, there: str, meant: bool) -> None:
    request = asked(edition="docker-ce", version=version)
    assert fnmatch.fnmatchcase(there, docker.glob_of(request, "docker-ce")) is meant


def test_a_version_that_apt_does_not_have_is_refused_with_those_that_it_has() -> None:
    host = dataclasses.replace(FRESH, available=["26.1.5+dfsg1-9"])
    ((variable, problem),) = faults(host, version="99")
    assert variable == "docker_version"
    assert "is 99, which apt does not have of docker.io" in problem
    assert faults(host, version="26.1") == []


def test_a_hold_of_somebody_else_is_not_broken_and_not_taken() -> None:
    held = {**DEBIAN13, "docker.io": DEBIAN13["docker.io"]._replace(hold=True)}
    assert faults(Host(packages=held), version="27")[0][0] == "docker_version"

    plan = plan_present(Host(packages=held), asked(hold=True))
    assert plan.hold == ["docker-cli"]
    assert content(plan, docker.MEMORY)["held"] == ["docker-cli"]

    everything = {name: package._replace(hold=True) for name, package in DEBIAN13.items()}
    later = dataclasses.replace(after(plan, Host(packages=held)), packages=everything)
    assert plan_present(later, PARAMS).unhold == ["docker-cli"]


@pytest.mark.parametrize(("packages", "closed"), [(DEBIAN12, False), (DEBIAN13, True)])
def test_ports_of_other_networks_than_the_default_are_closed_where_docker_can(
    packages: dict[str, Package], closed: bool
) -> None:
    plan = plan_present(Host(packages=packages), PARAMS)
    bridge = {"bridge": {"com.docker.network.bridge.host_binding_ipv4": "127.0.0.1"}}
    assert (plan.options.get("default-network-opts") == bridge) is closed
    assert ("docker.ports" not in [finding["id"] for finding in plan.findings]) is closed


@pytest.mark.parametrize(
    ("version", "firewalled", "status"),
    [("26.1.5+dfsg1", False, "warn"), ("26.1.5+dfsg1", True, "pass"), ("28.0.0", False, "pass"), ("", False, None)],
)
def test_ports_on_loopback_are_open_to_neighbours_before_docker_28(
    version: str, firewalled: bool, status: str | None
) -> None:
    packages = {"docker.io": Package(version=version)} if version else {}
    plan = plan_present(Host(packages=packages, firewalled=firewalled), PARAMS)
    found = {finding["id"]: finding["status"] for finding in plan.findings}
    assert found.get("docker.direct") == status


@pytest.mark.parametrize(("packages", "validated"), [(DEBIAN12, False), (DEBIAN13, True)])
def test_dockerd_validates_where_it_can(packages: dict[str, Package], validated: bool) -> None:
    plan = plan_present(Host(packages=packages), PARAMS)
    entry = next(entry for entry in plan.files if entry["path"] == docker.DAEMON_JSON)
    assert (entry.get("validate") == "/usr/sbin/dockerd --validate --config-file=%s") is validated


# --- The group ---


def test_only_named_users_are_members_and_a_warning_names_them() -> None:
    plan = plan_present(Host(packages=DEBIAN13, group=()), PARAMS)
    assert plan.groups == []
    assert [finding["status"] for finding in plan.findings if finding["id"] == "docker.group"] == ["pass"]

    plan = plan_present(Host(packages=DEBIAN13, group=("bob",)), asked(users=["ada"]))
    assert plan.groups[0]["members"] == ["ada", "bob"]
    finding = next(finding for finding in plan.findings if finding["id"] == "docker.group")
    assert (finding["status"], "ada, bob" in finding["evidence"]) == ("warn", True)


def test_who_comes_off_the_list_leaves_the_group_and_others_stay() -> None:
    host = Host(packages=DEBIAN13, group=("bob",))
    host = dataclasses.replace(after(plan_present(host, asked(users=["ada", "bob"])), host), group=("ada", "bob"))
    assert plan_present(host, PARAMS).groups[0]["members"] == ["bob"]
    assert plan_absent(host, PARAMS).groups[0]["members"] == ["bob"]


# --- absent ---


def test_absent_knows_nothing_of_a_host_that_it_never_managed() -> None:
    plan = plan_absent(Host(packages=DEBIAN13, config="{}", daemon=BUSY), PARAMS)
    assert (plan.files, plan.groups, plan.units, plan.requirements) == ([], [], [], [])


def test_absent_stops_what_came_with_the_role_and_restarts_what_was_there() -> None:
    new = after(plan_present(FRESH, PARAMS), FRESH, daemon=IDLE)
    assert [unit["name"] for unit in plan_absent(new, PARAMS).units] == [
        "docker.socket",
        "docker.service",
        "containerd.service",
    ]

    host = Host(packages=DEBIAN13, config='{"mtu": 1400}', daemon=IDLE)
    there = after(plan_present(host, PARAMS), host)
    assert plan_absent(there, PARAMS).units == [{"name": "docker.service", "restart_on": [docker.DAEMON_JSON]}]
    assert plan_absent(there, PARAMS).files == []


@pytest.mark.parametrize(("own", "verb"), [({"debug": False}, "reload_on"), ({}, "restart_on")])
def test_absent_reloads_only_where_dockerd_then_forgets_what_the_role_wrote(own: dict[str, Any], verb: str) -> None:
    config = json.dumps({**plan_present(Host(packages=DEBIAN13), PARAMS).options, **own})
    host = Host(packages=DEBIAN13, config=config, daemon=IDLE)
    there = after(plan_present(host, asked(daemon_options={"debug": True})), host)
    assert plan_absent(there, PARAMS).units == [{"name": "docker.service", verb: [docker.DAEMON_JSON]}]


def test_absent_that_was_cut_short_is_completed() -> None:
    cut_short = Host(packages=DEBIAN13, brought=("docker.socket", "docker.service"), daemon=IDLE)
    assert [unit["state"] for unit in plan_absent(cut_short, PARAMS).units] == ["stopped", "stopped"]

    there_before = dataclasses.replace(cut_short, brought=())
    assert plan_absent(there_before, PARAMS).units == [
        {"name": "docker.service", "restart_on": [docker.DAEMON_JSON], "may_restart": True}
    ]


def test_absent_leaves_stored_data_where_it_is_when_docker_came_with_the_role() -> None:
    places = {"/data/docker": Place("/data"), "/data/containerd": Place("/data")}
    fresh = Host(packages={}, places=places)
    host = after(
        plan_present(fresh, asked(data_root="/data/docker")), fresh, daemon=Daemon(root="/data/docker", stored=1)
    )
    assert plan_absent(host, PARAMS).requirements == []


def test_absent_keeps_what_others_have_written_since() -> None:
    host = Host(packages=DEBIAN13, config='{"mtu": 1400}')
    host = after(plan_present(host, PARAMS), host)
    host = dataclasses.replace(host, config=json.dumps({**json.loads(host.config or ""), "dns": ["192.0.2.1"]}))

    (file,) = plan_absent(host, PARAMS).files

    assert file["state"] == "released"
    assert json.loads(file["content"]) == {"mtu": 1400, "dns": ["192.0.2.1"]}


@pytest.mark.parametrize("daemon", [GPU, BUSY])
def test_absent_ends_no_container_unasked(daemon: Daemon) -> None:
    host = after(plan_present(FRESH, PARAMS), FRESH, daemon=daemon)
    (fault,) = plan_absent(host, PARAMS).requirements
    assert fault["variable"] == "docker_state"
    assert plan_absent(host, asked(allow_disruption=True)).requirements == []

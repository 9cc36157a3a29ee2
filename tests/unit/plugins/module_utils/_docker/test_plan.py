# SPDX-License-Identifier: GPL-3.0-or-later
"""One owner of daemon.json, a restart only where a reload is not enough, and requests that are refused by name."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import Package
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import model as docker
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.checks import disruption
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.model import (
    Daemon,
    Host,
    Memory,
    Place,
    Plan,
    containerd_root_of,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.options import restart_part
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.plan import (
    plan_absent,
    plan_present,
    with_containerd_root,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.verify import other_options

from tests.unit.support.docker import PARAMS

FRESH = Host(packages={})
DEBIAN12 = {
    "docker.io": Package("20.10.24+dfsg1-1"),
    "docker-cli": Package("20.10.24"),
    "containerd": Package("1.6.20"),
}
DEBIAN13: Any = {
    "docker.io": Package("26.1.5+dfsg1-9"),
    "docker-cli": Package("26.1.5+dfsg1-9"),
    "containerd": Package("1.7"),
}
IDLE = Daemon(live_restore=True)
BUSY = Daemon(live_restore=True, running=("web",), stored=2)
GPU = Daemon(live_restore=True, running=("train", "web"), gpu=("train",), stored=3)


def request_of(**request: Any) -> Any:
    return {**PARAMS, **request}


def content(plan: Plan, path: str) -> Any:
    files: Any = [*plan.package_files, *(plan.files_afterwards or plan.files)]
    found = next(entry["content"] for entry in files if entry["path"] == path)
    return json.loads(found) if path.endswith(".json") else found


def after(plan: Plan, host: Host, **more: Any) -> Host:
    """Return the host after a plan was carried out."""
    memory = content(plan, docker.MEMORY)
    return dataclasses.replace(
        host,
        packages=host.packages or DEBIAN13,
        config=json.dumps(content(plan, docker.DAEMON_JSON)),
        original=host.original or host.config,
        memory=Memory(memory["host"], memory["written"], tuple(memory["users"]), tuple(memory["held"])),
        role_units=tuple(content(plan, docker.ROLE_UNITS)),
        **more,
    )


def docker_unit(plan: Plan) -> Any:
    return next(unit for unit in plan.units if unit["name"] == "docker.service")


def faults(host: Host, **request: Any) -> list[tuple[str, str]]:
    return [(fault["variable"], fault["problem"]) for fault in plan_present(host, request_of(**request)).requirements]


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


def test_merge_order_is_host_defaults_options_parts() -> None:
    host = Host(
        packages=DEBIAN13,
        config='{"dns": ["192.0.2.1"], "default-shm-size": "64m", "runtimes": {"crun": {"path": "crun"}}}',
        parts={
            f"{docker.PARTS}/nvidia_container_toolkit.json": '{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}'
        },
    )

    options = plan_present(
        host, request_of(daemon_options={"debug": True, "runtimes": {"kata": {"path": "kata"}}})
    ).options

    assert options["dns"] == ["192.0.2.1"]
    assert options["default-shm-size"] == "1g"
    assert options["debug"] is True
    assert sorted(options["runtimes"]) == ["crun", "kata", "nvidia"]


def test_manual_options_stay_and_dropped_options_go() -> None:
    host = Host(packages=DEBIAN13, config='{"dns": ["192.0.2.1"]}')
    host = after(plan_present(host, request_of(daemon_options={"debug": True, "mtu": 1400})), host)
    by_hand: Any = {**json.loads(host.config or ""), "dns-search": ["lab.example"]}
    host = dataclasses.replace(host, config=json.dumps(by_hand))

    for _run in range(3):
        plan = plan_present(host, PARAMS)
        host = after(plan, host)

    assert plan.options["dns"] == ["192.0.2.1"]
    assert plan.options["dns-search"] == ["lab.example"]
    assert plan.options.keys().isdisjoint({"debug", "mtu"})
    assert plan.files_afterwards == []


def test_removed_option_is_reset_until_docker_reloads() -> None:
    host = after(plan_present(FRESH, request_of(daemon_options={"debug": True})), FRESH, daemon=IDLE)

    plan = plan_present(host, PARAMS)

    files: Any = {file["path"]: file["content"] for file in plan.files}
    last = {file["path"]: file["content"] for file in plan.files_afterwards}
    assert json.loads(files[docker.DAEMON_JSON])["debug"] is False
    assert "debug" not in json.loads(last[docker.DAEMON_JSON])
    # A run that is cut short in between is taken up, and nothing but these two is written twice.
    assert "debug" in json.loads(files[docker.MEMORY])["written"]
    assert {path for path in files if files[path] != last[path]} == {docker.DAEMON_JSON, docker.MEMORY}


def test_a_second_plan_is_the_same() -> None:
    first = plan_present(Host(packages=DEBIAN13), request_of(users=["ada"], hold=True))
    held: Any = {name: package._replace(hold=True) for name, package in DEBIAN13.items()}
    host = dataclasses.replace(after(first, Host(packages=DEBIAN13)), group=("ada",), packages=held)

    second = plan_present(host, request_of(users=["ada"], hold=True))

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
def test_restart_file_changes_only_with_start_options(change: Any, restart: bool) -> None:
    host = Host(packages=DEBIAN13)
    before = plan_present(host, PARAMS)

    plan = plan_present(after(before, host), request_of(**change))

    assert content(plan, docker.DAEMON_JSON) != content(before, docker.DAEMON_JSON)
    assert (content(plan, docker.RESTART) != content(before, docker.RESTART)) is restart
    assert docker_unit(plan)["reload_on"] == [docker.DAEMON_JSON]
    assert docker.DAEMON_JSON not in docker_unit(plan)["restart_on"]


def test_first_run_does_not_restart_docker_with_same_options() -> None:
    config = json.dumps({**restart_part(plan_present(Host(packages=DEBIAN13), PARAMS).options)})
    host = Host(packages=DEBIAN13, config=config, daemon=IDLE)

    assert docker_unit(plan_present(host, PARAMS))["loaded"] == [docker.RESTART]
    assert "loaded" not in docker_unit(plan_present(dataclasses.replace(host, settled=False), PARAMS))
    assert "loaded" not in docker_unit(plan_present(host, request_of(shm_size="2g")))


@pytest.mark.parametrize(("allowed", "waits"), [(False, "containers use a GPU: train"), (True, "")])
def test_restart_waits_for_gpu_containers(allowed: bool, waits: str) -> None:
    host = Host(packages=DEBIAN13, daemon=GPU)

    plan = plan_present(after(plan_present(host, PARAMS), host), request_of(shm_size="2g", allow_disruption=allowed))

    assert docker_unit(plan)["may_restart"] is allowed
    assert plan.restart_waits == waits
    assert plan.requirements == []


# --- Storage ---


def test_data_root_moves_containerd_and_waits_for_the_disk() -> None:
    places = {"/data/docker": Place("/data"), "/data/containerd": Place("/data")}
    host = Host(packages=DEBIAN13, places=places, containerd_config="version = 2\n[plugins]\n")

    plan = plan_present(host, request_of(data_root="/data/docker"))

    assert plan.requirements == []
    assert plan.options["data-root"] == "/data/docker"
    assert content(plan, docker.CONTAINERD_CONFIG) == 'version = 2\nroot = "/data/containerd"\n[plugins]\n'
    assert "\n[Unit]\nRequiresMountsFor=/data/docker /data/containerd\n" in content(plan, docker.DROP_IN)
    assert [unit["name"] for unit in plan.units] == ["containerd.service", "docker.service"]


def test_absent_is_refused_while_containers_outlive_docker() -> None:
    host = after(
        plan_present(Host(packages=DEBIAN13), PARAMS), Host(packages=DEBIAN13), stopped=docker.StoppedDaemon(running=1)
    )
    (refused,) = plan_absent(host, PARAMS).requirements
    assert "1 containers still run without docker" in refused["problem"]


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
def test_private_daemon_json_stays_private(request_: Any, mode: int | None, expected: str | None) -> None:
    plan = plan_present(Host(packages=DEBIAN13, config="{}", config_mode=mode), request_of(**request_))
    files: Any = {file["path"]: file for file in plan.files}
    assert files[docker.DAEMON_JSON].get("mode") == expected
    assert files[docker.DAEMON_JSON].get("secret", False) is plan.secret is (expected is not None)
    for path in (docker.RESTART, docker.MEMORY):
        assert (files[path]["mode"], files[path]["secret"]) == ("0600", plan.secret)


def test_dropped_data_root_does_not_leave_data_behind() -> None:
    places = {"/data/docker": Place("/data"), "/data/containerd": Place("/data")}
    host = Host(packages=DEBIAN13, places=places)
    moved = after(
        plan_present(host, request_of(data_root="/data/docker")),
        host,
        containerd_config='root = "/data/containerd"\n',
        containerd_managed=True,
        containerd_stored=5,
        daemon=Daemon(root="/data/docker", stored=3),
    )

    assert faults(moved, data_root="/data/docker") == []
    assert [variable for variable, _problem in faults(moved)] == ["docker_data_root", "docker_containerd_root"]
    assert "/var/lib/docker" in plan_absent(moved, PARAMS).requirements[0]["problem"]


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


# --- Packages ---


def test_docker_ce_adds_its_repository_unless_the_host_has_it() -> None:
    plan = plan_present(FRESH, request_of(edition="docker-ce"))
    assert plan.repository["url"] == "https://repo.example/linux/debian"
    assert "Signed-By: /etc/apt/keyrings/rigwright-docker.asc" in content(plan, docker.SOURCE)

    by_hand = Host(packages={}, sources=["/etc/apt/sources.list.d/docker.list"])
    assert plan_present(by_hand, request_of(edition="docker-ce")).repository == {}


def test_a_version_is_pinned_installed_and_left_alone() -> None:
    plan = plan_present(FRESH, request_of(edition="docker-ce", version="28.5"))
    assert plan.install == [
        "docker-ce=5:28.5[!0-9]*[0-9A-Za-z]",
        "docker-ce-cli=5:28.5[!0-9]*[0-9A-Za-z]",
        "containerd.io",
        "ca-certificates",
    ]
    assert content(plan, docker.PREFERENCES) == (
        "Package: docker-ce docker-ce-cli\nPin: version 5:28.5[!0-9]*[0-9A-Za-z]\nPin-Priority: 1001\n"
    )

    installed: Any = {
        name: Package(f"5:28.5.{number}-1~debian.13") for number, name in enumerate(["docker-ce", "docker-ce-cli"])
    }
    installed = {**installed, "containerd.io": Package("2.1"), "ca-certificates": Package("2025")}
    plan = plan_present(Host(packages=installed), request_of(version="28.5", hold=True))
    assert plan.install == []
    assert plan.hold == ["docker-ce", "docker-ce-cli", "containerd.io"]


def test_holds_of_the_user_are_kept() -> None:
    held: Any = {**DEBIAN13, "docker.io": DEBIAN13["docker.io"]._replace(hold=True)}
    assert faults(Host(packages=held), version="27")[0][0] == "docker_version"

    plan = plan_present(Host(packages=held), request_of(hold=True))
    assert plan.hold == ["docker-cli"]
    assert content(plan, docker.MEMORY)["held"] == ["docker-cli"]

    everything = {name: package._replace(hold=True) for name, package in DEBIAN13.items()}
    later = dataclasses.replace(after(plan, Host(packages=held)), packages=everything)
    assert plan_present(later, PARAMS).unhold == ["docker-cli"]


@pytest.mark.parametrize(("packages", "closed"), [(DEBIAN12, False), (DEBIAN13, True)])
def test_ports_of_all_networks_are_bound_where_docker_can(packages: dict[str, Package], closed: bool) -> None:
    plan = plan_present(Host(packages=packages), PARAMS)
    bridge = {"bridge": {"com.docker.network.bridge.host_binding_ipv4": "127.0.0.1"}}
    assert (plan.options.get("default-network-opts") == bridge) is closed
    assert ("docker.ports" not in [finding["id"] for finding in plan.findings]) is closed


@pytest.mark.parametrize(
    ("version", "firewalled", "status"),
    [("26.1.5+dfsg1", False, "warn"), ("26.1.5+dfsg1", True, "pass"), ("28.0.0", False, "pass"), ("", False, None)],
)
def test_loopback_ports_are_reachable_before_docker_28(version: str, firewalled: bool, status: str | None) -> None:
    packages: Any = {"docker.io": Package(version=version)} if version else {}
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

    plan = plan_present(Host(packages=DEBIAN13, group=("bob",)), request_of(users=["ada"]))
    assert plan.groups[0]["members"] == ["ada", "bob"]
    finding = next(finding for finding in plan.findings if finding["id"] == "docker.group")
    assert (finding["status"], "ada, bob" in finding["evidence"]) == ("warn", True)


def test_removed_user_leaves_the_group_and_others_stay() -> None:
    host = Host(packages=DEBIAN13, group=("bob",))
    host = dataclasses.replace(after(plan_present(host, request_of(users=["ada", "bob"])), host), group=("ada", "bob"))
    assert plan_present(host, PARAMS).groups[0]["members"] == ["bob"]
    assert plan_absent(host, PARAMS).groups[0]["members"] == ["bob"]


# --- absent ---


def test_absent_changes_nothing_on_an_unmanaged_host() -> None:
    plan = plan_absent(Host(packages=DEBIAN13, config="{}", daemon=BUSY), PARAMS)
    assert (plan.files, plan.groups, plan.units, plan.requirements) == ([], [], [], [])


def test_absent_stops_own_units_and_restarts_existing_docker() -> None:
    new = after(plan_present(FRESH, PARAMS), FRESH, daemon=IDLE)
    assert [unit["name"] for unit in plan_absent(new, PARAMS).units] == [
        "docker.socket",
        "docker.service",
        "containerd.service",
    ]

    host = Host(packages=DEBIAN13, config='{"mtu": 1400}', daemon=IDLE)
    configured = after(plan_present(host, PARAMS), host)
    assert plan_absent(configured, PARAMS).units == [{"name": "docker.service", "restart_on": [docker.DAEMON_JSON]}]
    assert plan_absent(configured, PARAMS).files == []


@pytest.mark.parametrize(("own", "verb"), [({"debug": False}, "reload_on"), ({}, "restart_on")])
def test_absent_reloads_only_where_no_option_goes(own: Any, verb: str) -> None:
    config = json.dumps({**plan_present(Host(packages=DEBIAN13), PARAMS).options, **own})
    host = Host(packages=DEBIAN13, config=config, daemon=IDLE)
    configured = after(plan_present(host, request_of(daemon_options={"debug": True})), host)
    assert plan_absent(configured, PARAMS).units == [{"name": "docker.service", verb: [docker.DAEMON_JSON]}]


def test_absent_keeps_containerd_for_a_docker_that_goes_on() -> None:
    host = Host(packages=DEBIAN13, config='{"debug": true}', daemon=IDLE)
    configured = dataclasses.replace(
        after(plan_present(host, PARAMS), host), role_units=("containerd.service",), containerd_managed=True
    )
    units: Any = {unit["name"]: unit.get("state", "started") for unit in plan_absent(configured, PARAMS).units}
    assert units == {"containerd.service": "started", "docker.service": "started"}


def test_absent_that_was_cut_short_is_completed() -> None:
    cut_short = Host(packages=DEBIAN13, role_units=("docker.socket", "docker.service"), daemon=IDLE)
    assert [unit["state"] for unit in plan_absent(cut_short, PARAMS).units] == ["stopped", "stopped"]

    there_before = dataclasses.replace(cut_short, role_units=())
    assert plan_absent(there_before, PARAMS).units == [
        {"name": "docker.service", "restart_on": [docker.DAEMON_JSON], "may_restart": True}
    ]


def test_absent_keeps_data_of_a_docker_that_the_role_installed() -> None:
    places = {"/data/docker": Place("/data"), "/data/containerd": Place("/data")}
    fresh = Host(packages={}, places=places)
    host = after(
        plan_present(fresh, request_of(data_root="/data/docker")), fresh, daemon=Daemon(root="/data/docker", stored=1)
    )
    assert plan_absent(host, PARAMS).requirements == []


def test_absent_keeps_later_changes_of_daemon_json() -> None:
    host = Host(packages=DEBIAN13, config='{"mtu": 1400}')
    host = after(plan_present(host, PARAMS), host)
    host = dataclasses.replace(host, config=json.dumps({**json.loads(host.config or ""), "dns": ["192.0.2.1"]}))

    (file,) = plan_absent(host, PARAMS).files

    assert file["state"] == "released"
    assert json.loads(file["content"]) == {"mtu": 1400, "dns": ["192.0.2.1"]}


@pytest.mark.parametrize("daemon", [GPU, BUSY])
def test_absent_is_refused_under_running_containers(daemon: Daemon) -> None:
    host = after(plan_present(FRESH, PARAMS), FRESH, daemon=daemon)
    (fault,) = plan_absent(host, PARAMS).requirements
    assert fault["variable"] == "docker_state"
    assert plan_absent(host, request_of(allow_disruption=True)).requirements == []


SPELLINGS = ("disk/docker", "disk/docker/", "disk//docker", "disk/./docker", "disk/x/../docker", "big/docker", "link")


@pytest.mark.parametrize("own", SPELLINGS)
@pytest.mark.parametrize("containerd", ["disk/containerd", "disk/containerd/", "big/containerd"])
def test_one_directory_by_another_name_moves_nothing(tmp_path: Path, own: str, containerd: str) -> None:
    (tmp_path / "disk/docker").mkdir(parents=True)
    (tmp_path / "disk/x").mkdir()
    (tmp_path / "big").symlink_to(tmp_path / "disk")
    (tmp_path / "link").symlink_to(tmp_path / "disk/docker")
    config: Any = {"data-root": f"{tmp_path}/{own}"}
    wanted = f"{tmp_path}/disk/docker"
    host = Host(
        packages=DEBIAN13,
        config=json.dumps(config),
        daemon=Daemon(root=wanted, stored=7),
        containerd_config=f'version = 2\nroot = "{tmp_path}/{containerd}"\n',
        containerd_stored=40,
        places={f"{tmp_path}/disk/{name}": Place(str(tmp_path), free_bytes=0) for name in ("docker", "containerd")},
    )
    for request in (PARAMS, request_of(data_root=wanted), request_of(data_root=f"{wanted}/")):
        assert plan_present(host, request).requirements == []
    assert other_options({"DockerRootDir": wanted, "LoggingDriver": "json-file"}, config, []) == []


@pytest.mark.parametrize(
    ("arguments", "root"),
    [
        (["--data-root", "/x"], "/x"),
        (["--data-root=/x", "-H", "fd://"], "/x"),
        (["-g", "/x"], "/x"),
        (["-g/x"], "/x"),
        (["--graph=/x"], "/x"),
        (["-H", "fd://"], "/var/lib/docker"),
        (None, "/var/lib/docker"),
    ],
)
def test_data_root_of_the_command_line(arguments: list[str] | None, root: str) -> None:
    assert docker.data_root_of({}, arguments) == root
    assert docker.data_root_of({"data-root": "/own"}, arguments) == "/own"


@pytest.mark.parametrize(
    "daemon", [Daemon(swarm=True, stored=7), Daemon(swarm=True, running=("web",), live_restore=True)]
)
def test_live_restore_in_a_swarm(daemon: Daemon) -> None:
    for config in (None, '{"live-restore": true}'):
        host = Host(packages=DEBIAN13, daemon=daemon, config=config)
        assert not plan_present(host, PARAMS).options.get("live-restore")
        (refused,) = plan_present(host, request_of(daemon_options={"live-restore": True})).requirements
        assert "swarm" in refused["problem"]


def test_a_swarm_is_named_as_what_a_restart_waits_for() -> None:
    daemon = Daemon(swarm=True, running=("web.1",))
    assert "swarm" in disruption(Host(packages=DEBIAN13, daemon=daemon), {}, {})

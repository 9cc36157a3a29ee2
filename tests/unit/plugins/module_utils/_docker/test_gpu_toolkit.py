# SPDX-License-Identifier: GPL-3.0-or-later
"""One version of four packages, CDI where docker knows it, a CDI spec that is true, and requests that are refused by name."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import Package
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import gpu_toolkit as toolkit
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.gpu_toolkit import (
    CDI,
    LEGACY,
    PACKAGES,
    PART,
    SERVICE,
    Docker,
    Host,
    Refresh,
    choose_mode,
    includes,
    part_of,
    plan_absent,
    plan_present,
)

URL = "https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH)"
PARAMS: Any = {
    "state": "present",
    "version": "1.20.1",
    "hold": False,
    "repository": {"url": URL, "key_url": "https://repo.example/gpgkey", "fingerprints": ["A" * 40]},
    "mode": "auto",
    "allow_disruption": False,
}
CDI_PART = json.dumps({"features": {"cdi": True}}, indent=1) + "\n"
DEBIAN12: Any = {"docker.io": Package("20.10.24+dfsg1-1")}
DEBIAN13 = {"docker.io": Package("26.1.5+dfsg1-9")}
FOUR = {name: Package("1.20.1-1") for name in PACKAGES}
FRESH = Host(packages=DEBIAN13, driver_loaded="580.159.04", driver_library="580.159.04", docker=Docker(("runc",)))
DONE = dataclasses.replace(
    FRESH,
    packages={**DEBIAN13, **FOUR},
    docker=Docker(("runc",), cdi=True),
    part=CDI_PART,
    daemon_json=CDI_PART,
    service_enabled=True,
    record={"packages": list(PACKAGES), "settings": True, "held": []},
)


def host(base: Host = FRESH, **changes: Any) -> Host:
    return dataclasses.replace(base, **changes)


def params(**changes: Any) -> Any:
    return {**PARAMS, **changes}


def problems(plan: toolkit.Plan) -> list[str]:
    return [f"{problem['variable']} {problem['problem']}" for problem in plan.requirements]


def paths(plan: toolkit.Plan) -> list[str]:
    return [entry["path"] for entry in plan.files]


# --- CDI, or the runtime ---


@pytest.mark.parametrize(
    ("version", "mode", "part"),
    [
        ((20, 10, 24), LEGACY, toolkit.RUNTIME),
        ((24, 0, 7), LEGACY, toolkit.RUNTIME),
        ((25, 0), CDI, {"features": {"cdi": True}}),
        ((26, 1, 5), CDI, {"features": {"cdi": True}}),
        ((28, 2, 2), CDI, {"features": {"cdi": True}}),
        ((28, 3), CDI, {}),
        ((29, 1), CDI, {}),
    ],
)
def test_mode_and_part_follow_the_docker_version(version, mode, part):
    chosen, reason = choose_mode("auto", version)
    assert chosen == mode
    assert ".".join(map(str, version)) in reason
    assert part_of(chosen, version) == part


def test_cdi_that_the_host_switches_off_stays_on():
    version, on = (29, 1), {"features": {"cdi": True}}
    assert part_of(CDI, version, '{"features": {"cdi": false}}') == on
    # The next run sees the part in daemon.json, and no longer what the host's own file says.
    assert part_of(CDI, version, '{"features": {"cdi": true}}', '{"features": {"cdi": true}}') == on
    assert part_of(CDI, version, '{"features": {"cdi": true}}') == {}
    assert part_of(CDI, version, '{"features": []}') == {}


def test_legacy_runtime_is_not_the_default():
    assert choose_mode("legacy", (28, 3))[0] == LEGACY
    assert PART in paths(plan_present(host(), params(mode="legacy")))


def test_cdi_of_a_docker_without_it_is_refused():
    (problem,) = problems(plan_present(host(packages=DEBIAN12), params(mode="cdi")))
    assert problem == (
        "nvidia_container_toolkit_mode is cdi, and docker 20.10.24 does not support CDI, which needs docker 25"
    )


def test_contained_part_is_in_force():
    assert includes({"features": {"cdi": True, "buildkit": True}, "ip": "127.0.0.1"}, {"features": {"cdi": True}})
    assert not includes({"features": {"cdi": False}}, {"features": {"cdi": True}})
    assert not includes({"features": True}, {"features": {"cdi": True}})
    assert includes({}, {})


# --- A host that is as it should be ---


def test_second_plan_changes_nothing():
    plan = plan_present(DONE, PARAMS)
    assert (plan.requirements, plan.install, plan.hold, plan.unhold, plan.apply) == ([], [], [], [], False)
    assert [unit["name"] for unit in plan.units] == [toolkit.PATH_UNIT]


@pytest.mark.parametrize(
    "changes",
    [
        {"part": ""},
        {"daemon_json": "{}"},
        {"daemon_json": "{"},
        {"docker": Docker(("runc",), cdi=False)},
        {"docker": None},
    ],
)
def test_docker_is_configured_until_the_part_is_in_force(changes):
    """Complete an interrupted run by the next one."""
    assert plan_present(host(DONE, **changes), PARAMS).apply is True


def test_stale_spec_is_written_again():
    plan = plan_present(host(DONE, refresh=Refresh(stale="/var/run/cdi/nvidia.yaml did not match the driver")), PARAMS)
    assert {"name": SERVICE, "enabled": True} in plan.units


def test_unloaded_driver_does_not_fail_the_service():
    waiting = host(DONE, driver_loaded="", refresh=Refresh(problem="the driver is not loaded"))
    plan = plan_present(waiting, PARAMS)
    assert [unit["name"] for unit in plan.units] == [toolkit.PATH_UNIT]
    spec = next(found for found in plan.findings if found["id"].endswith(".spec"))
    assert spec["status"] == "warn"
    assert spec["remedy"].startswith("reboot")


# --- Four packages, one version ---


def test_all_four_are_installed_in_one_version():
    plan = plan_present(host(), PARAMS)
    assert plan.install == [f"{name}=1.20.1-1" for name in PACKAGES]
    pin = next(entry["content"] for entry in plan.package_files if entry["path"] == toolkit.PREFERENCES)
    assert pin == f"Package: {' '.join(PACKAGES)}\nPin: version 1.20.1-1\nPin-Priority: 1001\n"


def test_one_package_of_another_version_takes_all_four_along():
    mixed: Any = {**DEBIAN13, **FOUR, "libnvidia-container1": Package("1.19.1-1")}
    assert len(plan_present(host(DONE, packages=mixed), PARAMS).install) == 4


def test_unknown_toolkit_version_is_refused_with_available_ones():
    plan = plan_present(host(available=["1.9.0-1", "1.19.1-1"]), PARAMS)
    (problem,) = problems(plan)
    assert problem.startswith("nvidia_container_toolkit_version is 1.20.1, which https://nvidia.github.io/")
    assert plan.requirements[0]["remedy"] == "choose one of 1.19.1-1, 1.9.0-1"


@pytest.mark.parametrize("version", ["newest", "1.20", "1.20.1; reboot", ""])
def test_invalid_version_is_refused(version):
    assert problems(plan_present(host(), params(version=version)))[0].startswith(
        "nvidia_container_toolkit_version is no"
    )


def test_hold_of_the_user_is_respected():
    held: Any = {**DEBIAN13, **{name: Package("1.19.1-1", hold=True) for name in PACKAGES}}
    (problem,) = problems(plan_present(host(packages=held), PARAMS))
    assert "on hold" in problem
    ours = host(packages=held, record={"packages": [], "settings": True, "held": list(PACKAGES)})
    plan = plan_present(ours, params(hold=False))
    assert (problems(plan), plan.unhold) == ([], list(PACKAGES))


def test_a_hold_is_set_and_remembered():
    plan = plan_present(DONE, params(hold=True))
    assert plan.hold == list(PACKAGES)
    memory = json.loads(plan.package_files[0]["content"])
    assert memory["held"] == list(PACKAGES)


# --- Sources of apt ---


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("nvidia-docker.list", "deb https://nvidia.github.io/libnvidia-container/stable/ubuntu18.04/$(ARCH) /"),
        ("nvidia-container-toolkit.list", f"deb [signed-by=/usr/share/keyrings/nvidia.gpg] {URL} /"),
        ("libnvidia-container.list", "deb https://nvidia.github.io/libnvidia-container/stable/deb/amd64 /"),
    ],
)
def test_older_source_of_the_toolkit_is_replaced(name, line):
    path = f"/etc/apt/sources.list.d/{name}"
    plan = plan_present(host(sources={path: f"# from a guide\n{line}\n"}), PARAMS)
    assert {"path": path, "state": "absent"} in plan.package_files
    assert problems(plan) == []


@pytest.mark.parametrize("path", ["/etc/apt/sources.list", "/etc/apt/sources.list.d/mixed.list"])
def test_mixed_source_file_is_refused(path):
    text = f"deb http://archive.example/debian trixie main\ndeb [signed-by=/other.gpg] {URL} /\n"
    plan = plan_present(host(sources={path: text}), PARAMS)
    assert problems(plan)[0].startswith(f"{path} has the toolkit's repository among other sources")


def test_other_sources_are_left_alone():
    sources: Any = {
        "/etc/apt/sources.list": "deb http://archive.example/debian trixie main\n",
        toolkit.SOURCE: "Types: deb\n",
    }
    plan = plan_present(host(sources=sources), PARAMS)
    assert [entry for entry in plan.package_files if entry.get("state")] == []
    assert problems(plan) == []


# --- What has to be there before ---


def test_no_docker_and_no_driver_are_refused():
    found = problems(plan_present(host(packages={}, driver_loaded="", driver_library=""), PARAMS))
    assert [problem.partition(" is present, ")[2] for problem in found] == [
        "and docker is not installed on this host",
        "and no NVIDIA driver is installed on this host",
    ]


def test_planned_docker_and_driver_count_in_check_mode():
    fresh: Any = {"packages": {}, "driver_loaded": "", "driver_library": "", "docker": None}
    plan = plan_present(host(**fresh, docker_comes=True, driver_comes=True), PARAMS)
    assert problems(plan) == []
    assert plan.apply is True
    (problem,) = problems(plan_present(host(**fresh, docker_comes=True), PARAMS))
    assert "no NVIDIA driver" in problem


# --- A user's own docker ---


def test_no_cgroups_is_only_for_rootless_docker():
    plan = plan_present(host(), params(mode="legacy"))
    (config,) = [entry["path"] for entry in plan.files if "no-cgroups = true" in entry["content"]]
    assert config != f"{toolkit.RUNTIME_FOLDER}/config.toml"
    (drop_in,) = [entry["path"] for entry in plan.files if config in entry["content"]]
    assert drop_in.startswith("/etc/systemd/user/")
    assert "no-cgroups" not in json.dumps(plan_present(host(), params()).files), "with CDI nothing is needed"


def test_cdi_is_in_force_until_docker_restarts():
    waiting = host(
        DONE, daemon_json=json.dumps(toolkit.RUNTIME), part=json.dumps(toolkit.RUNTIME, indent=1, sort_keys=True) + "\n"
    )
    for cdi in (True, False):
        docker = Docker(("runc", "nvidia"), cdi=cdi)
        assert plan_present(dataclasses.replace(waiting, docker=docker), params(mode="legacy")).apply is cdi


def test_replaced_source_stays_removed():
    plan = plan_present(host(DONE, put_away=["/etc/apt/sources.list.d/old.list"]), params(version="1.19.1"))
    assert {"path": "/etc/apt/sources.list.d/old.list", "state": "absent"} in plan.package_files


# --- Away again ---


def test_absent_removes_only_packages_installed_by_the_role():
    record: Any = {"packages": ["nvidia-container-toolkit"], "settings": False, "held": []}
    plan = plan_absent(host(DONE, record=record), PARAMS)
    assert (plan.remove, plan.units, plan.remove_paths) == (["nvidia-container-toolkit"], [], [])
    everything = plan_absent(DONE, PARAMS)
    assert everything.remove == list(PACKAGES)
    assert everything.remove_paths == [toolkit.SPEC, toolkit.RUNTIME_FOLDER]
    assert everything.apply is True


def test_absent_without_a_record_does_nothing():
    assert plan_absent(FRESH, PARAMS) == toolkit.Plan()


def test_absent_waits_for_containers_with_a_gpu():
    training = host(DONE, docker=Docker(("runc",), cdi=True, gpu_containers=("train",)))
    assert problems(plan_absent(training, PARAMS)) == [
        "nvidia_container_toolkit_state is absent, and these containers use a GPU: train"
    ]
    assert problems(plan_absent(training, params(allow_disruption=True))) == []

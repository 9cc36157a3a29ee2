# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of a chosen driver."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_plan import plan_driver

from tests.unit.support.nvidia import hosts as gpu_hosts
from tests.unit.support.nvidia.driver_requests import make_host, problems


def test_repository_is_planned_with_its_key_and_checksum() -> None:
    repository = plan_driver(make_host("Debian 13"), {}).repository
    assert repository["url"].endswith("/compute/cuda/repos/debian13")
    assert (repository["key"], repository["keyring_sha256"], repository["configured"]) == (
        "8793F200",
        {"x86_64": "dd28f1f6ba0038180d6b23f846cefca1e3de4c9327751665241370bacea452a1"},
        False,
    )


def test_headers_that_are_missing_come_along() -> None:
    host = make_host("Debian 12")
    host["kernels"][0]["headers"] = False
    assert plan_driver(host, {}).headers == ["linux-headers-6.1.0-37-amd64"]


@pytest.mark.parametrize(
    ("system", "source", "branch", "package"),
    [
        ("Ubuntu 24.04", "archive", "580", "nvidia-fabricmanager-580"),
        ("Ubuntu 22.04", "cuda_repository", "570", "nvidia-fabricmanager-570"),
        ("Debian 12", "cuda_repository", "580", "nvidia-fabricmanager"),
    ],
)
def test_nvswitch_brings_the_fabric_manager(system: str, source: str, branch: str, package: str) -> None:
    plan = plan_driver(make_host(system, ("H100",), nvswitch=True), {"source": source, "branch": branch})
    assert package in plan.install


def test_nvswitch_takes_the_servers_driver_of_ubuntu() -> None:
    assert (
        "nvidia-headless-no-dkms-580-server-open"
        in plan_driver(make_host("Ubuntu 24.04", ("A100",), nvswitch=True), {}).install
    )


def test_the_archives_driver_is_kept_from_the_cuda_repository() -> None:
    preferences = plan_driver(make_host("Ubuntu 24.04"), {}).preferences
    assert "Pin: release l=NVIDIA CUDA\nPin-Priority: -1\n" in preferences


def test_without_a_pinning_package_preferences_keep_the_branch() -> None:
    offered = [{"version": "580.159.04-1", "origins": ["cuda_repository"]}]
    with_it = make_host(available={"nvidia-driver-cuda": offered, "nvidia-driver-pinning-580": offered})
    without = make_host(available={"nvidia-driver-cuda": offered})
    assert (plan_driver(with_it, {}).pinning, plan_driver(with_it, {}).preferences) == (
        ["nvidia-driver-pinning-580"],
        "",
    )
    assert plan_driver(without, {}).pinning == []
    assert "Pin: version 580.*\nPin-Priority: 1000\n" in plan_driver(without, {}).preferences


def test_plan_is_preliminary_without_lists_of_its_source() -> None:
    offered = [{"version": "535.309.01-0+deb12u1", "origins": ["archive"]}]
    host = make_host(available={"libcuda1": offered, "linux-headers-6.1.0-37-amd64": offered})
    assert plan_driver(host, {"source": "archive"}).preliminary is False
    assert plan_driver(host, {"source": "cuda_repository"}).preliminary is True


def test_a_switch_of_the_branch_takes_the_old_names_away(tmp_path: Path) -> None:
    host = gpu_hosts.gather("held_package", tmp_path)
    plan = plan_driver(host, {"branch": "580", "own_holds": host["holds"]})
    assert problems(plan) == []
    assert plan.remove == ["nvidia-dkms-570-open", "nvidia-headless-no-dkms-570-open", "nvidia-utils-570"]
    assert plan.install == [
        "nvidia-headless-no-dkms-580-open",
        "nvidia-utils-580",
        "linux-modules-nvidia-580-open-generic-hwe-22.04",
    ]
    assert plan.downgrade is False


def test_prebuilt_module_of_another_branch_goes(tmp_path: Path) -> None:
    host = gpu_hosts.gather("mismatch_after_upgrade", tmp_path)
    host["kernels"] = [{**kernel, "headers": True} for kernel in host["kernels"]]
    plan = plan_driver(host, {"branch": "595"})
    assert "linux-modules-nvidia-580-open-generic" in plan.remove


def test_a_switch_of_the_flavour_leaves_the_libraries(tmp_path: Path) -> None:
    host = gpu_hosts.gather("healthy_workstation", tmp_path)
    plan = plan_driver(host, {"modules": "closed", "interrupt": True})
    assert problems(plan) == []
    assert (plan.install, plan.remove) == (
        ["cuda-drivers", "nvidia-kernel-dkms"],
        ["nvidia-kernel-open-dkms", "nvidia-open"],
    )
    assert plan.reboot == ["driver 580.159.04 is loaded and will be replaced"]


def test_a_version_that_its_source_has_dropped_stays(tmp_path: Path) -> None:
    host = gpu_hosts.gather("superseded_version", tmp_path)
    plan = plan_driver(host, {"own_holds": host["holds"]})
    assert problems(plan) == []
    assert (plan.source, plan.branch, plan.modules, plan.changes) == ("archive", 580, "open", False)


def test_dropped_version_is_replaced_by_another_source(tmp_path: Path) -> None:
    host = gpu_hosts.gather("superseded_version", tmp_path)
    host["kernels"] = [{**kernel, "headers": True} for kernel in host["kernels"]]
    plan = plan_driver(host, {"source": "cuda_repository", "own_holds": host["holds"]})
    assert problems(plan) == []
    assert "nvidia-utils-580" in plan.install


def test_a_driver_whose_repository_is_off_gets_it_back(tmp_path: Path) -> None:
    plan = plan_driver(gpu_hosts.gather("repository_off", tmp_path), {})
    assert problems(plan) == []
    assert (plan.source, plan.branch, plan.modules) == ("cuda_repository", 580, "open")
    assert (plan.downgrade, plan.remove) == (False, [])
    assert plan.repository["directory"] == "debian12"


@pytest.mark.parametrize(("lock", "headers"), [(True, []), (False, ["linux-headers-amd64"])])
def test_unlocked_driver_gets_headers_of_the_next_kernel(lock: bool, headers: list[str]) -> None:
    offered = [{"version": "6.1.140-1", "origins": ["archive"]}]
    host = make_host("Debian 12", available={"linux-headers-amd64": offered})
    assert plan_driver(host, {"lock": lock}).headers == headers


def test_a_lower_branch_is_a_downgrade(tmp_path: Path) -> None:
    host = gpu_hosts.gather("healthy_workstation", tmp_path)
    plan = plan_driver(host, {"branch": "570", "interrupt": True})
    assert (plan.downgrade, plan.branch, plan.refused) == (True, 570, False)
    assert "nvidia-driver-pinning-580" in plan.remove


def test_failed_build_is_replaced_by_a_working_driver(tmp_path: Path) -> None:
    plan = plan_driver(gpu_hosts.gather("failed_build", tmp_path), {})
    assert problems(plan) == []
    assert (plan.source, plan.branch) == ("cuda_repository", 580)
    assert "nvidia-open-kernel-dkms" in plan.remove
    assert plan.notes == ["dpkg has not finished nvidia-open-kernel-dkms"]

# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests and drivers that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_plan import plan_driver

from tests.unit.support.nvidia import hosts as gpu_hosts
from tests.unit.support.nvidia.driver_requests import make_host, problems, refusal


@pytest.mark.parametrize(
    ("host", "request_", "variable", "problem", "remedy"),
    [
        pytest.param(
            make_host(), {"branch": "581"}, "nvidia_driver_branch", "is 581, which is unknown", "580", id="branch"
        ),
        pytest.param(
            make_host(), {"source": "ppa"}, "nvidia_driver_source", "is ppa, which is unknown", "archive", id="source"
        ),
        pytest.param(
            make_host(cards=("RTX 5090",)),
            {"modules": "closed"},
            "nvidia_driver_modules",
            "no support for Blackwell",
            "open",
            id="closed on Blackwell",
        ),
        pytest.param(
            make_host(cards=("V100",)),
            {"modules": "open"},
            "nvidia_driver_modules",
            "no support for Volta",
            "closed",
            id="open on Volta",
        ),
        pytest.param(
            make_host(cards=("GTX 980",)),
            {"branch": "595"},
            "nvidia_driver_branch",
            "580 is the last for Maxwell",
            "580",
            id="too new for Maxwell",
        ),
        pytest.param(
            make_host(cards=("RTX 5050",)),
            {"branch": "570"},
            "nvidia_driver_branch",
            "known from driver 575.64.03 on",
            "580",
            id="too old for it",
        ),
        pytest.param(
            make_host("Debian 12", cards=("RTX 5090",)),
            {"source": "archive"},
            "nvidia_driver_source",
            "leaves no driver for Blackwell",
            "cuda_repository",
            id="the archive is too old",
        ),
        pytest.param(
            make_host("Debian 12"),
            {"source": "archive", "modules": "open"},
            "nvidia_driver_source",
            "leaves no driver for Ada",
            "535 closed from archive",
            id="the archive's open module lags behind",
        ),
        pytest.param(
            make_host(cards=("GTX 780",)),
            {},
            "this host",
            "whose last driver branch is 470",
            "replace the card",
            id="Kepler",
        ),
        pytest.param(
            make_host(cards=("GTX 1080 Ti", "RTX 5090")),
            {},
            "this host",
            "no kernel module serves together",
            "take one",
            id="cards that exclude each other",
        ),
        pytest.param(make_host(cards=()), {}, "this host", "has no NVIDIA GPU", "nvidia_driver_gpus", id="no GPU"),
        pytest.param(
            make_host(),
            {"branch": "570", "toolkits": ["13.0"]},
            "nvidia_driver_toolkits",
            "needs driver 580.65.06 or newer",
            "12.9",
            id="toolkit too new",
        ),
        pytest.param(
            make_host(cards=("V100",)),
            {"toolkits": ["13.0"]},
            "nvidia_driver_toolkits",
            "12.9 is the last for Volta",
            "12.9",
            id="toolkit too new for Volta",
        ),
        pytest.param(
            make_host(), {"toolkits": ["12.7"]}, "nvidia_driver_toolkits", "is not one of", "12.9", id="toolkit unknown"
        ),
        pytest.param(
            make_host("Debian 13"),
            {"source": "archive"},
            "nvidia_driver_source",
            "does not build for the kernel 6.12.107+deb13-amd64",
            "cuda_repository",
            id="known not to build",
        ),
        pytest.param(
            make_host(free_bytes={"/": 10**12, "/var": 9 * 1024**3}),
            {},
            "this host",
            "less than 10 GiB free on /var",
            "nvidia_driver_free_bytes",
            id="disk",
        ),
        pytest.param(
            make_host(repositories=[{"file": "/etc/apt/sources.list.d/x.list", "url": "x", "directory": "debian11"}]),
            {},
            "this host",
            "has the CUDA repository of debian11",
            "x.list",
            id="repository of another system",
        ),
    ],
)
def test_refused(host: dict[str, Any], request_: dict[str, Any], variable: str, problem: str, remedy: str) -> None:
    plan = plan_driver(host, request_)
    found = refusal(plan)
    assert found[0] == variable
    assert problem in found[1]
    assert remedy in found[2]
    assert plan.as_dict()["refused"] is True
    assert (plan.changes, plan.pinning, plan.install, plan.remove, plan.hold) == (False, [], [], [], [])


@pytest.mark.parametrize(
    ("name", "request_", "problem"),
    [
        (
            "no_headers",
            {},
            "has no headers for the kernel 6.12.43+deb13-amd64, and no configured source has linux-headers-6.12.43+deb13-amd64",
        ),
        (
            "mixed_repositories",
            {},
            "has driver packages of several sources (archive: nvidia-driver, nvidia-kernel-dkms; cuda_repository: libcuda1)",
        ),
        ("run_leftovers", {}, "has driver 550.54.14 from a .run file"),
        ("recorded_h200", {}, "has driver 580.159.04 that no package installed"),
        ("held_package", {"branch": "580"}, "holds nvidia-headless-no-dkms-570-open, nvidia-utils-570"),
        ("healthy_workstation", {"branch": "595"}, "is off, and the GPU is in use by python3 (1421, alice)"),
        ("failed_build", {"source": "archive"}, "leads to driver 550.163.01 from archive, which does not build"),
        ("vm_without_gpu", {}, "has no NVIDIA GPU"),
    ],
)
def test_a_recorded_host_is_refused(name: str, request_: dict[str, Any], problem: str, tmp_path: Path) -> None:
    plan = plan_driver(gpu_hosts.gather(name, tmp_path), request_)
    assert [found for _variable, found in problems(plan) if found.startswith(problem)]


@pytest.mark.parametrize("command", ["nvidia-persiste", "nv-fabricmanage", "nv-hostengine"])
def test_a_daemon_does_not_count_as_use(command: str, tmp_path: Path) -> None:
    host = gpu_hosts.gather("healthy_workstation", tmp_path)
    host["holders"] = [{"pid": 602, "command": command, "user": "root", "devices": ["/dev/nvidiactl"]}]
    assert plan_driver(host, {"branch": "595"}).refused is False


def test_card_that_a_virtual_machine_borrows_keeps_its_driver(tmp_path: Path) -> None:
    """The host has its only card on vfio-pci while the machine runs (libvirt: managed)."""
    host = gpu_hosts.gather("healthy_workstation", tmp_path)
    for gpu in host["gpus"]:
        gpu["kernel_driver"] = "vfio-pci"
    plan = plan_driver(host, {})
    assert (problems(plan), plan.changes, plan.branch) == ([], False, 580)
    # The installed driver does not serve this one, which is never returned to it.
    for gpu in host["gpus"]:
        gpu["device_id"] = "128b"
    assert [found for _variable, found in problems(plan_driver(host, {})) if "of its own" in found]


def test_known_build_failure_can_be_ignored() -> None:
    plan = plan_driver(make_host("Debian 13"), {"source": "archive", "ignore_build_failures": True})
    assert (plan.branch, plan.changes, plan.refused) == (550, True, False)


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    host = gpu_hosts.gather("held_package", tmp_path)
    host["free_bytes"] = {"/": 0}
    host["holders"] = [{"pid": 1, "command": "x", "user": "y", "devices": []}]
    assert len(problems(plan_driver(host, {"branch": "580"}))) == 3


@pytest.mark.parametrize("gpu", ["xyz", "10de:2684", "", "99999999", "-1", "2684 "])
def test_a_gpu_that_is_no_device_id_is_refused(gpu: str) -> None:
    variable, problem, _remedy = refusal(plan_driver(make_host(), {"gpus": ["2684", gpu]}))
    assert (variable, problem) == ("nvidia_driver_gpus", f"has {gpu!r}, which is no PCI device id")


@pytest.mark.parametrize("gpu", ["2684", "0x2684", "1eB8"])
def test_a_device_id_is_four_hexadecimal_digits(gpu: str) -> None:
    assert not plan_driver(make_host(), {"gpus": [gpu]}).refused

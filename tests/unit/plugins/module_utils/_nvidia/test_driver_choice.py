# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver that a host gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_plan import plan_driver

from tests.unit.support.nvidia import hosts as gpu_hosts
from tests.unit.support.nvidia.driver_requests import CARDS, carry_out, make_host, problems, refusal


@pytest.mark.parametrize(
    ("system", "card", "expected"),
    [
        ("Debian 12", "RTX 4090", ("cuda_repository", 580, "open", ["nvidia-driver-cuda", "nvidia-kernel-open-dkms"])),
        ("Debian 12", "GTX 1080 Ti", ("cuda_repository", 580, "closed", ["nvidia-driver-cuda", "nvidia-kernel-dkms"])),
        ("Debian 13", "RTX 5090", ("cuda_repository", 580, "open", ["nvidia-driver-cuda", "nvidia-kernel-open-dkms"])),
        (
            "Ubuntu 24.04",
            "RTX 3090",
            ("archive", 580, "open", ["nvidia-headless-no-dkms-580-open", "nvidia-utils-580", "nvidia-dkms-580-open"]),
        ),
        (
            "Ubuntu 22.04",
            "V100",
            ("archive", 580, "closed", ["nvidia-headless-no-dkms-580", "nvidia-utils-580", "nvidia-dkms-580"]),
        ),
        (
            "Ubuntu 24.04",
            "GB10",
            ("archive", 580, "open", ["nvidia-headless-no-dkms-580-open", "nvidia-utils-580", "nvidia-dkms-580-open"]),
        ),
        ("Debian 12", "unknown", ("cuda_repository", 580, "open", ["nvidia-driver-cuda", "nvidia-kernel-open-dkms"])),
    ],
)
def test_driver_of_a_bare_host(system: str, card: str, expected: tuple[str, int, str, list[str]]) -> None:
    plan = plan_driver(make_host(system, (card,)), {})
    assert problems(plan) == []
    assert (plan.source, plan.branch, plan.modules, plan.install) == expected
    assert plan.changes is True
    assert plan.remove == []


def test_a_desktop_gets_the_whole_driver() -> None:
    host = make_host("Debian 12", desktop={"display_manager": "gdm", "present": True})
    assert plan_driver(host, {}).install == ["nvidia-open", "nvidia-kernel-open-dkms"]
    assert plan_driver(host, {"scope": "compute"}).install == ["nvidia-driver-cuda", "nvidia-kernel-open-dkms"]


def test_each_choice_can_be_overridden() -> None:
    choice = {"source": "archive", "branch": 535, "modules": "closed", "scope": "desktop"}
    plan = plan_driver(make_host("Debian 12"), choice)
    assert problems(plan) == []
    assert plan.install == [
        "nvidia-driver",
        "libcuda1",
        "nvidia-smi",
        "libnvidia-cfg1",
        "nvidia-persistenced",
        "nvidia-kernel-dkms",
    ]
    assert plan.components == ["contrib", "non-free", "non-free-firmware"]
    assert plan.reasons == [f"{field} {value}: asked for by nvidia_driver_{field}" for field, value in choice.items()]


def test_gpus_can_be_named_for_an_image() -> None:
    plan = plan_driver(make_host(cards=()), {"gpus": [CARDS["GTX 980"]]})
    assert (plan.generations, plan.modules, plan.refused) == (["Maxwell"], "closed", False)


def test_two_generations_get_a_driver_for_both() -> None:
    plan = plan_driver(make_host("Ubuntu 24.04", ("GTX 1080 Ti", "RTX 4090")), {})
    assert (plan.branch, plan.modules, plan.refused) == (580, "closed", False)


def test_a_toolkit_moves_the_choice_of_the_branch() -> None:
    host = make_host("Debian 12", ("V100",))
    assert plan_driver(host, {"toolkits": ["12.9"]}).branch == 580
    plan = plan_driver(make_host("Debian 12"), {"toolkits": ["13.2"]})
    assert (plan.branch, plan.refused) == (580, False)
    assert plan.notes == [
        "CUDA 13.2 runs on driver 580 by minor-version compatibility: PTX cannot be compiled, and features that need driver"
        " 595.45.04 fail"
    ]


def test_a_healthy_workstation_stays_as_it_is(tmp_path: Path) -> None:
    plan = plan_driver(gpu_hosts.gather("healthy_workstation", tmp_path), {})
    assert problems(plan) == []
    assert (plan.changes, plan.install, plan.remove, plan.reboot) == (False, [], [], [])
    assert {"nvidia-open", "libcuda1", "linux-image-amd64", "linux-headers-amd64"} <= set(plan.hold)
    assert "nvidia-container-toolkit" not in plan.hold


def test_a_driver_of_an_unknown_source_keeps_its_flavour(tmp_path: Path) -> None:
    host = gpu_hosts.gather("repository_off", tmp_path)
    host["packages"]["nvidia-kernel-dkms"] = host["packages"].pop("nvidia-kernel-open-dkms")
    assert plan_driver(host, {}).modules == "closed"


def test_auto_never_chooses_an_older_branch(tmp_path: Path) -> None:
    host = gpu_hosts.gather("healthy_workstation", tmp_path)
    host["holders"] = []
    for entry in host["packages"].values():
        entry["version"] = entry["version"].replace("580.159.04", "620.10.01")
    variable, problem, remedy = refusal(plan_driver(host, {}))
    assert (variable, problem) == (
        "nvidia_driver_branch",
        "is auto, which does not go down from the installed branch 620 to 615",
    )
    assert "615" in remedy
    assert plan_driver(host, {"branch": "615"}).downgrade is True
    # A source that is asked for is taken, and the branch goes down as little as may be.
    assert plan_driver(host, {"source": "archive"}).branch == 535


def test_requested_source_keeps_the_newest_branch() -> None:
    host = make_host("Ubuntu 24.04")
    host = carry_out(host, plan_driver(host, {"source": "cuda_repository", "branch": "590"}))
    assert plan_driver(host, {"source": "archive"}).branch == 595


def test_a_branch_that_has_ended_is_kept_with_a_warning() -> None:
    host = make_host("Debian 12")
    host = carry_out(host, plan_driver(host, {"branch": "570"}))
    plan = plan_driver(host, {})
    assert (plan.branch, plan.refused) == (570, False)
    assert plan.notes == ["branch 570 was supported until 2026-02, and gets no more fixes"]
    assert plan_driver({**host, "month": "2026-02"}, {}).notes == []


def test_branch_whose_later_release_fits_is_not_refused() -> None:
    assert plan_driver(make_host(cards=("RTX 5060 Ti",)), {"branch": "570"}).branch == 570

# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person is shown of a driver."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.apt_transaction import Simulation
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_findings import (
    findings,
    nvidia_smi,
    proofs,
    reboot_reasons,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import (
    INSTALLED,
    Change,
    Failure,
    Record,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_transaction import change_of

from tests.unit.support.nvidia.driver_states import KERNEL, NEW, OLD, See, statuses


def test_a_change_that_is_not_loaded_is_a_reason_to_reboot(see: See) -> None:
    state = see("healthy_workstation", record=Record(change=Change(590, version=NEW, stage=INSTALLED)))
    assert reboot_reasons(state) == [f"driver {NEW} is installed and not loaded yet"]
    assert reboot_reasons(see("healthy_workstation")) == []
    assert "nouveau is loaded" in reboot_reasons(see("nouveau_bound"))


def test_kernel_installed_by_the_role_needs_a_reboot(see: See) -> None:
    def waits(**state: Any) -> list[str]:
        host = see("healthy_workstation", **state)
        host.facts["kernels"][0]["next"] = False
        host.facts["kernels"].append(
            {**host.facts["kernels"][0], "release": "6.1.0-40-amd64", "running": False, "next": True}
        )
        return reboot_reasons(host)

    due = ["the kernel 6.1.0-40-amd64 boots next, 6.1.0-37-amd64 runs"]
    new = ["linux-image-6.1.0-40-amd64"]
    assert waits(record=Record(installed=new)) == due
    assert waits(record=Record(change=Change(580, version=OLD, stage=INSTALLED, new=new))) == due
    # One that came otherwise is no business of the role.
    assert waits() == []


def test_a_reboot_that_an_upgrade_will_need_is_announced(see: See) -> None:
    state = see("healthy_workstation", simulation=Simulation(KERNEL, []))
    change = change_of(state.facts, state.plan, upgrade=True)
    assert reboot_reasons(state, change) == ["the kernel 6.1.0-40-amd64 comes along and boots next"]
    state = dataclasses.replace(state, simulation=Simulation({"libcuda1": "580.170.01-1"}, []))
    assert reboot_reasons(state, change) == [f"driver {OLD} is loaded and will be replaced"]


def test_findings_of_a_host_that_is_as_planned(see: See) -> None:
    assert statuses(findings(see("healthy_workstation"), None, [])) == {"reboot": "pass", "change": "pass"}


@pytest.mark.parametrize(("version", "status"), [(OLD, "fail"), (NEW, "pass")])
def test_driver_taken_back_fails_while_it_is_wanted(see: See, version: str, status: str) -> None:
    failure = Failure("build", "error: too few", version, "6.1.0-37-amd64", restored="570.195.03")
    found = findings(see("healthy_workstation", record=Record(failure=failure)), None, [])
    assert statuses(found)["change"] == status
    assert "driver 570.195.03 is in place again" in found[1]["evidence"]


def test_a_key_that_waits_for_a_person_is_a_warning(see: See) -> None:
    assert statuses(findings(see("mok_pending"), None, []))["secure_boot"] == "warn"


def test_proofs_of_a_healthy_workstation(see: See) -> None:
    state = see("healthy_workstation")
    state.facts["holds"] = state.locked
    found = proofs(state, None, [], lock=True)
    assert set(statuses(found).values()) == {"pass"}, found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # Of a reboot that is due the rest of the proofs has to wait.
        ("mismatch_after_upgrade", {"matches": "warn", "reboot": "warn", "locked": "fail"}),
        ("failed_build", {"loaded": "fail", "dkms": "fail"}),
        ("mixed_repositories", {"packages": "fail"}),
    ],
)
def test_proofs_of_hosts_with_a_problem(see: See, name: str, expected: dict[str, str]) -> None:
    state = see(name)
    reboot = reboot_reasons(state)
    found = statuses(proofs(state, change_of(state.facts, state.plan), reboot, lock=True))
    assert expected.items() <= found.items(), found


def test_without_a_gpu_nothing_is_proven(see: See) -> None:
    found = statuses(proofs(see("vm_without_gpu"), None, [], lock=True))
    assert (found["loaded"], found["matches"]) == ("skip", "skip")


def test_unlocked_driver_passes_without_the_lock(see: See) -> None:
    assert statuses(proofs(see("healthy_workstation"), None, [], lock=False))["locked"] == "skip"


@pytest.mark.parametrize(
    ("outcome", "reboot", "status", "evidence"),
    [
        (None, [], "skip", "no NVIDIA GPU here"),
        ((0, "GPU 0: NVIDIA H100 PCIe (UUID: GPU-1)", ""), [], "pass", "GPU 0: NVIDIA H100 PCIe (UUID: GPU-1)"),
        (
            (18, "", "Failed to initialize NVML: Driver/library version mismatch"),
            [],
            "fail",
            "Failed to initialize NVML: Driver/library version mismatch",
        ),
        (
            (127, "", "runuser: failed to execute nvidia-smi: No such file or directory"),
            ["nouveau is loaded"],
            "warn",
            "runuser: failed to execute nvidia-smi: No such file or directory",
        ),
        ((9, "", ""), [], "fail", "nvidia-smi ended with 9 and no output"),
        ((14, "GPU 0: Quadro P4000 (UUID: GPU-1)", ""), [], "warn", "GPU 0: Quadro P4000 (UUID: GPU-1)"),
    ],
)
def test_what_nvidia_smi_prints_for_an_unprivileged_user(
    outcome: tuple[int, str, str] | None, reboot: list[str], status: str, evidence: str
) -> None:
    found = nvidia_smi(outcome, reboot)
    assert (found["status"], found["evidence"]) == (status, evidence)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings of a plan: what differs from the declared sharing, and what waits."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing import checks, verify
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing.run import NOTHING

CHOICE = {"id": "gpu_sharing.gpu0", "status": "pass", "evidence": "NVIDIA H200 at 0000:41:00.0: mps", "remedy": ""}
PLAN: Any = {**NOTHING, "known": True, "findings": [CHOICE]}
CHANGED = {"changed": True}


def found(check_mode: bool = False, state: str = "present", **changes: Any) -> dict[str, Finding]:
    rows = verify.findings(PLAN | changes, state, check_mode)
    return {row["id"]: row for row in rows}


def test_host_as_declared_passes() -> None:
    rows = found(mig=[{"changed": False}])
    assert {row["status"] for row in rows.values()} == {"pass"}
    assert rows["gpu_sharing.declared"]["evidence"] == "modes, MIG and MPS are as declared, now and for each boot"
    assert rows["gpu_sharing.complete"]["evidence"] == "no change waits for a reset or for programs to end"
    assert rows["gpu_sharing.gpu0"] == CHOICE


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"modes": CHANGED}, "modes"),
        ({"mig": [{"changed": False}, CHANGED]}, "MIG"),
        ({"modes": CHANGED, "mig": [CHANGED], "mps": CHANGED}, "modes, MIG, MPS"),
    ],
)
def test_differing_part_fails(changes: Any, parts: str) -> None:
    row = found(**changes)["gpu_sharing.declared"]
    assert (row["status"], row["evidence"]) == ("fail", f"differs from the declaration: {parts}")
    assert row["remedy"] == verify.REMEDY


def test_waiting_change_is_a_warning() -> None:
    row = found(needs="gpu_reset", pending=["vision: memory limit of server 4711"])["gpu_sharing.complete"]
    assert row["status"] == "warn"
    assert row["evidence"] == "a GPU needs a gpu reset; vision: memory limit of server 4711"
    assert row["remedy"] == "reset or reboot, or let the programs end"


def test_refused_request_fails() -> None:
    row = found(known=False, requirements=checks.problems([], []))["gpu_sharing.declared"]
    assert (row["status"], row["evidence"]) == ("fail", "gpu_sharing_gpus is empty")


def test_missing_binding_fails_except_in_check_mode() -> None:
    assert found(known=False)["gpu_sharing.declared"]["status"] == "fail"
    assert found(known=False, check_mode=True)["gpu_sharing.declared"]["status"] == "skip"
    # Nothing is declared that could differ.
    assert found(known=False, state="absent")["gpu_sharing.declared"]["status"] == "pass"


@pytest.mark.parametrize(("next_step", "remedy"), [("reboot", "reboot"), ("", verify.REMEDY)])
def test_unanswered_question_fails(next_step: str, remedy: str) -> None:
    declared, complete = verify.unreadable("The GPUs cannot be asked", next_step)
    assert declared == {
        "id": "gpu_sharing.declared",
        "status": "fail",
        "evidence": "The GPUs cannot be asked",
        "remedy": remedy,
    }
    assert complete["status"] == "skip"

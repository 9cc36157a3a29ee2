# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person is shown of a GPU: its state, or the predicted one, and the diff."""

from __future__ import annotations

import dataclasses

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.layout import Compute, Instance, State
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.plan import Judged, Plan
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.request import Request
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.result import diff, exported, row
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.steps import CREATE, CREATE_COMPUTE, Step

from tests.unit.support.gpu.mig_cards import CARDS

PLACE = 0, "GPU-1", "0000:41:00.0", "NVIDIA H200", "0x233510de"
OFF = State(*PLACE, "disabled", "disabled", True, "default", CARDS["H200"], (), ())
LAYOUT = (Instance("3g.71gb", 4, (Compute(3, 0, 0, "MIG-1"),), 1),)
ON = dataclasses.replace(OFF, mode="enabled", pending="enabled", layout=LAYOUT)
REQUEST = Request("enabled", ({"profile": "3g.71gb"},))
STEPS = Step(CREATE, "3g.71gb", 4), Step(CREATE_COMPUTE, "3g.71gb", 4, Compute(3, 0))
SLOTS = [*(f"slot {slot}: free" for slot in range(4)), "slots 4-7: 3g.71gb"]


def test_row_without_a_change_has_the_predicted_state() -> None:
    found = row(Judged(Plan(OFF, REQUEST, "enabled", STEPS)), None)
    assert (found["mode"], found["pending"], found["slots"], found["uuid_changes"]) == ("enabled", "enabled", SLOTS, {})
    (instance,) = found["instances"]
    assert (instance["id"], instance["compute_instances"][0]["uuid"]) == (-1, "")
    assert found["changes"] == [
        "MIG enabled",
        "create 3g.71gb at slot 4",
        "create_compute 3c at slice 0 of 3g.71gb at slot 4",
    ]


def test_row_after_a_change_has_the_state_that_was_read() -> None:
    other = dataclasses.replace(ON, layout=(Instance("3g.71gb", 0, (Compute(3, 0, 0, "MIG-0"),), 1),))
    found = row(Judged(Plan(other, REQUEST, steps=STEPS)), ON)
    assert found["instances"][0]["compute_instances"][0]["uuid"] == "MIG-1"
    assert found["uuid_changes"] == {"MIG-0": "MIG-1"}


def test_row_of_a_blocked_gpu_is_skipped() -> None:
    found = row(Judged(Plan(ON, REQUEST), (7,), "processes run"), None)
    assert (found["skipped"], found["changes"], found["slots"]) == (True, [], SLOTS)


def test_diff_names_a_layout_whose_place_is_not_decided() -> None:
    found = diff([Judged(Plan(OFF, REQUEST, "enabled", open_=True))], {}, None)
    head = "GPU-1 NVIDIA H200 0000:41:00.0\n"
    assert found["before"] == f"{head}  MIG disabled\n"
    assert found["after"].startswith(f"{head}  MIG enabled\n") and found["after"].endswith("  3g.71gb\n")


def test_export_has_the_states_after_the_changes() -> None:
    judged = [Judged(Plan(OFF, REQUEST, "enabled", STEPS))]
    (before,) = exported(judged, {}, 1)["mig-configs"]["current"]
    (after,) = exported(judged, {"GPU-1": ON}, 1)["mig-configs"]["current"]
    assert (before["mig-enabled"], after["mig-devices"]) == (False, {"3g.71gb": 1})

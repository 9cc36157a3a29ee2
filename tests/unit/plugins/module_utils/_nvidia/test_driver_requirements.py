# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of a driver that are refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.apt_transaction import Simulation
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import Change, Failure, Record
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_requirements import requirements
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_transaction import change_of

from tests.unit.support.nvidia.driver_states import KERNEL, OLD, PARAMS, See, unmet


def test_an_unsound_transaction_is_refused(see: See) -> None:
    state = see("healthy_workstation", {"branch": "590"}, simulation=Simulation({}, ["gnome-shell"]))
    change = change_of(state.facts, state.plan)
    found = unmet(requirements(state, change, PARAMS | {"branch": "590"}))
    assert "apt would also remove gnome-shell" in found["nvidia_driver_branch"]


def test_failed_driver_is_tried_again_only_on_request(see: See) -> None:
    failure = Failure("boot", "the module is not loaded", OLD, "6.1.0-37-amd64", restored="570.195.03")
    state = see("healthy_workstation", record=Record(failure=failure))
    change = Change(580)
    assert "leads to driver 580.159.04 again" in unmet(requirements(state, change, PARAMS))["debian12"]
    assert unmet(requirements(state, change, PARAMS | {"ignore_build_failures": True})) == {}
    # Another kernel is another attempt.
    other = dataclasses.replace(state, record=Record(failure=dataclasses.replace(failure, kernel="6.1.0-40-amd64")))
    assert unmet(requirements(other, change, PARAMS)) == {}


@pytest.mark.parametrize(("interrupt", "refused"), [(False, True), (True, False)])
def test_an_upgrade_does_not_take_the_driver_from_a_program(see: See, interrupt: bool, refused: bool) -> None:
    users = [{"pid": 1421, "command": "python3", "user": "alice", "devices": ["/dev/nvidia0"]}]
    state = see("healthy_workstation", {"interrupt": interrupt}, facts={"holders": users})
    change = change_of(state.facts, state.plan, upgrade=True)
    found = unmet(requirements(state, change, PARAMS | {"upgrade": True, "interrupt": interrupt}))
    assert ("nvidia_driver_interrupt" in found) is refused
    if refused:
        assert "python3 (1421, alice)" in found["nvidia_driver_interrupt"]


@pytest.mark.parametrize(
    ("facts", "problem_text"),
    [
        pytest.param({"holds": ["linux-image-amd64"]}, "holds linux-image-amd64", id="somebody's hold"),
        pytest.param({"free_bytes": {"/": 10**9}}, "less than 10 GiB free on /", id="room"),
    ],
)
def test_packages_that_an_upgrade_touches_are_checked(see: See, facts: Any, problem_text: str) -> None:
    state = see("healthy_workstation", facts=facts, simulation=Simulation(KERNEL, []))
    change = change_of(state.facts, state.plan, upgrade=True)
    found = unmet(requirements(state, change, PARAMS | {"upgrade": True}))
    assert any(problem_text in problem for problem in found.values()), found
    # What the role itself holds is its own, and of a kernel alone no program takes notice.
    users = [{"pid": 1421, "command": "python3", "user": "alice", "devices": ["/dev/nvidia0"]}]
    own = see(
        "healthy_workstation",
        facts={"holds": ["linux-image-amd64"], "holders": users},
        simulation=Simulation(KERNEL, []),
        record=Record(held=["linux-image-amd64"]),
    )
    assert unmet(requirements(own, change, PARAMS | {"upgrade": True})) == {}


@pytest.mark.parametrize(("version", "refused"), [("6.12.90-1", False), ("6.12.107-1", True)])
def test_upgrade_to_a_kernel_with_a_known_build_failure(see: See, version: str, refused: bool) -> None:
    state = see(
        "healthy_workstation", {"branch": "580"}, simulation=Simulation({"linux-image-6.12-amd64": version}, [])
    )
    change = change_of(state.facts, state.plan, upgrade=True)
    old = dataclasses.replace(state, plan=dataclasses.replace(state.plan, version="580.95.05"))
    found = unmet(requirements(old, change, PARAMS | {"upgrade": True}))
    assert any("for which it does not build" in problem for problem in found.values()) is refused
    # The release that comes along in the same change is what counts.
    simulation = Simulation({"linux-image-6.12-amd64": version, "libcuda1": f"{OLD}-1"}, [])
    assert unmet(requirements(dataclasses.replace(old, simulation=simulation), change, PARAMS)) == {}


@pytest.mark.parametrize(("password", "refused"), [("", True), ("1234567", True), ("correct horse", False)])
def test_an_untrusted_key_needs_a_password(see: See, password: str, refused: bool) -> None:
    untrusted = {"state": "enabled", "certificate": "/var/lib/dkms/mok.pub", "enrolled": False, "pending": False}
    state = see("healthy_workstation", facts={"secure_boot": untrusted})
    assert state.plan.secure_boot == "enroll"
    found = unmet(requirements(state, None, PARAMS | {"mok_password": password}))
    assert ("nvidia_driver_mok_password" in found) is refused


@pytest.mark.parametrize("name", ["b a d", "", "a\nb", "a-b", "a=b", "NVreg_A\n"])
def test_the_name_of_a_module_option(see: See, name: str) -> None:
    options: Any = {name: 1, "NVreg_B": 1}
    refused = unmet(requirements(see("healthy_workstation"), None, PARAMS | {"module_options": options}))
    assert refused == {"nvidia_driver_module_options": f"has {name!r}, which modprobe cannot read"}

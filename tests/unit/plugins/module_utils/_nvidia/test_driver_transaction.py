# SPDX-License-Identifier: GPL-3.0-or-later
"""The transaction that a planned driver comes to."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import Package
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.apt_transaction import Simulation
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_findings import proofs
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import Record
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_transaction import (
    change_of,
    has_lists,
    leaving,
    to_complete,
    transaction_lines,
)

from tests.unit.support.nvidia.driver_states import NEW, OLD, See, statuses


def test_bare_host_gets_pin_headers_and_driver_at_once(see: See) -> None:
    state = see("nouveau_bound")
    change = change_of(state.facts, state.plan)
    assert change is not None
    assert change.install == [
        "nvidia-driver-pinning-580",
        "linux-headers-6.12.107+deb13-amd64",
        "nvidia-driver-cuda",
        "nvidia-kernel-open-dkms",
    ]
    assert (change.branch, change.remove, change.loads, change.recommends) == (580, [], True, False)
    assert "Pin: version 580.*" in change.preferences


def test_all_of_the_driver_goes_along_to_another_branch(see: See) -> None:
    state = see("healthy_workstation", {"branch": "590"}, offered=[f"{NEW}-1"])
    change = change_of(state.facts, state.plan)
    assert change is not None
    assert {"nvidia-driver", "libcuda1", "nvidia-driver-cuda", "nvidia-kernel-open-dkms"} <= {*change.install}
    assert "nvidia-driver-pinning-580" in change.remove
    assert "nvidia-container-toolkit" not in {*change.install, *change.remove}
    # A desktop takes what the packages recommend.
    assert change.recommends


def test_archives_older_driver_can_replace_a_newer_one(see: See) -> None:
    request = {"source": "archive", "branch": "535", "ignore_build_failures": True}
    state = see("healthy_workstation", request)
    assert not state.plan.refused
    change = change_of(state.facts, state.plan)
    assert change is not None
    assert "Pin: release o=Debian\nPin-Priority: 1000" in change.preferences
    # Afterwards, apt goes upwards alone.
    assert "o=Debian" not in state.plan.preferences


@pytest.mark.parametrize(("version", "goes_along"), [("570.133.07-1", False), ("580.159.04-1", True)])
def test_only_the_archives_tool_keeps_its_version(see: See, version: str, goes_along: bool) -> None:
    state = see("healthy_workstation", {"source": "archive", "branch": "535", "ignore_build_failures": True})
    state.facts["packages"]["nvidia-modprobe"] = {
        "version": version,
        "origin": "archive",
        "status": "installed",
        "hold": False,
    }
    state.facts["available"]["nvidia-modprobe"] = [{"version": "570.133.07-1", "origins": ["archive"]}]
    change = change_of(state.facts, state.plan)
    assert change is not None
    assert ("nvidia-modprobe" in change.install) is goes_along


def test_planned_state_needs_no_transaction(see: See) -> None:
    state = see("healthy_workstation")
    assert change_of(state.facts, state.plan) is None
    assert transaction_lines(state, None) == {"before": "", "after": ""}


def test_unfinished_driver_packages_are_completed_first(see: See) -> None:
    state = see("healthy_workstation", unfinished=["bash", "libcuda1:i386"])
    assert to_complete(state, None) == ["libcuda1:i386"]
    assert transaction_lines(state, None) == {
        "before": "libcuda1:i386: dpkg has not finished it\n",
        "after": "libcuda1:i386: whole\n",
    }
    assert statuses(proofs(state, None, [], lock=True))["packages"] == "fail"


def test_other_unfinished_packages_count_for_a_change(see: See) -> None:
    state = see("healthy_workstation", {"branch": "590"}, offered=[f"{NEW}-1"], unfinished=["bash"])
    assert to_complete(state, change_of(state.facts, state.plan)) == ["bash"]


def test_an_upgrade_names_driver_and_kernel(see: See) -> None:
    state = see("healthy_workstation")
    change = change_of(state.facts, state.plan, upgrade=True)
    assert change is not None
    assert {"libcuda1", "nvidia-open", "linux-image-amd64", "linux-headers-amd64"} <= {*change.install}
    assert "linux-image-6.1.0-37-amd64" not in change.install


def test_an_upgrade_brings_the_headers_of_the_new_kernel(see: See) -> None:
    state = see("healthy_workstation")
    del state.facts["packages"]["linux-headers-amd64"]
    change = change_of(state.facts, state.plan, upgrade=True)
    assert change is not None
    assert {"linux-image-amd64", "linux-headers-amd64"} <= {*change.install}


def test_a_refused_plan_has_no_transaction(see: See) -> None:
    state = see("run_leftovers")
    assert state.plan.refused
    assert change_of(state.facts, state.plan) is None


def test_the_diff_has_the_actions_of_apt(see: See) -> None:
    simulation = Simulation({"libcuda1": f"{NEW}-1", "nvidia-modprobe": f"{NEW}-1"}, ["nvidia-driver-pinning-580"])
    state = see("healthy_workstation", {"branch": "590"}, simulation=simulation)
    assert transaction_lines(state, change_of(state.facts, state.plan)) == {
        "before": f"libcuda1 {OLD}-1\nnvidia-driver-pinning-580 {OLD}-1\n",
        "after": f"libcuda1 {NEW}-1\nnvidia-modprobe {NEW}-1\n",
    }


def test_without_lists_the_diff_has_names(see: See) -> None:
    state = see("nouveau_bound")
    assert not has_lists(state.facts, state.plan)
    shown = transaction_lines(state, change_of(state.facts, state.plan))
    assert shown["before"] == ""
    assert "nvidia-driver-cuda (as the source has it)\n" in shown["after"]


def test_packages_of_the_role_go_unless_needed(see: See) -> None:
    packages = {
        "nvidia-driver-cuda": Package("1", needs=frozenset({"libcuda1"})),
        "libcuda1": Package("1"),
        "dkms": Package("1"),
        "nvidia-kernel-open-dkms": Package("1", needs=frozenset({"dkms"})),
        "wireguard-dkms": Package("1", needs=frozenset({"dkms"})),
        "nvidia-settings": Package("1"),
    }
    record = Record(installed=["dkms", "libcuda1", "nvidia-driver-cuda", "nvidia-kernel-open-dkms", "gone-since"])
    state = see(
        "healthy_workstation", record=record, packages=packages, automatic=frozenset({"libcuda1", "dkms", "gone-since"})
    )
    # wireguard-dkms needs dkms by now; nvidia-settings was there before the role.
    assert leaving(state) == ["libcuda1", "nvidia-driver-cuda", "nvidia-kernel-open-dkms"]


def test_a_library_of_the_driver_that_a_toolkit_depends_on_stays(see: See) -> None:
    packages = {
        "libcuda1": Package("1", depends=frozenset({frozenset({"libcuda-helper"})})),
        "libcuda-helper": Package("1"),
        "nvidia-driver-cuda": Package("1", depends=frozenset({frozenset({"libcuda1"})})),
        "nvidia-cuda-toolkit": Package("1", depends=frozenset({frozenset({"libcuda1"})})),
    }
    record = Record(installed=["libcuda1", "libcuda-helper", "nvidia-driver-cuda"])
    state = see("healthy_workstation", record=record, packages=packages, automatic=frozenset({"libcuda-helper"}))

    assert leaving(state) == ["nvidia-driver-cuda"]

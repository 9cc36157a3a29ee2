# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans of a driver, for example hosts and for all that hypothesis makes up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_plan import plan_driver
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.gpus import lowest_driver
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import branch_of
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.support.nvidia import hosts as gpu_hosts
from tests.unit.support.nvidia.driver_requests import CARDS, SYSTEMS, carry_out, make_host, problems


def test_signed_modules_need_no_build_and_no_console() -> None:
    offered = [{"version": "6.8.0-60.63", "origins": ["archive"]}]
    secure_boot = {"state": "enabled", "certificate": "", "enrolled": False, "pending": False}
    host = make_host(
        "Ubuntu 24.04", available={"linux-modules-nvidia-580-open-generic": offered}, secure_boot=secure_boot
    )
    plan = plan_driver(host, {})
    assert plan.build == "prebuilt"
    assert plan.install[-1] == "linux-modules-nvidia-580-open-generic"
    assert (plan.secure_boot, plan.reboot, plan.headers) == ("signed", [], [])


@pytest.mark.parametrize(
    ("enrolled", "pending", "path"), [(True, False, "enrolled"), (False, True, "pending"), (False, False, "enroll")]
)
def test_secure_boot_of_a_module_that_dkms_builds(enrolled: bool, pending: bool, path: str) -> None:
    secure_boot = {"state": "enabled", "certificate": "x", "enrolled": enrolled, "pending": pending}
    plan = plan_driver(make_host("Debian 12", secure_boot=secure_boot), {})
    assert plan.secure_boot == path
    assert any("console" in reason for reason in plan.reboot) is (path != "enrolled")


def test_a_mismatch_needs_a_reboot_and_nothing_else(tmp_path: Path) -> None:
    plan = plan_driver(gpu_hosts.gather("mismatch_after_upgrade", tmp_path), {})
    assert (plan.changes, plan.reboot) == (False, ["driver 580.126.09 is loaded, the libraries are of 580.159.03"])


def test_nouveau_needs_a_reboot(tmp_path: Path) -> None:
    plan = plan_driver(gpu_hosts.gather("nouveau_bound", tmp_path), {})
    assert "nouveau is loaded" in plan.reboot
    assert plan.headers == ["linux-headers-6.12.107+deb13-amd64"]


def test_a_key_that_waits_stays_waiting(tmp_path: Path) -> None:
    plan = plan_driver(gpu_hosts.gather("mok_pending", tmp_path), {})
    assert (plan.changes, plan.secure_boot) == (False, "pending")


def test_nothing_is_held_when_nothing_is_locked() -> None:
    assert plan_driver(make_host(), {"lock": False}).hold == []


HOSTS = st.builds(
    make_host,
    system=st.sampled_from([f"{distribution} {version}" for distribution, version in SYSTEMS]),
    cards=st.lists(st.sampled_from(sorted(CARDS)), min_size=1, max_size=3, unique=True).map(tuple),
    desktop=st.booleans().map(lambda present: {"display_manager": "", "present": present}),
    nvswitch=st.booleans(),
    secure_boot=st.sampled_from(["enabled", "disabled"]).map(
        lambda state: {"state": state, "certificate": "", "enrolled": False, "pending": False}
    ),
    available=st.sampled_from(
        [{}, {"linux-modules-nvidia-580-open-generic": [{"version": "6.8.0-60.63", "origins": ["archive"]}]}]
    ),
)


REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "source": st.sampled_from(["auto", "archive", "cuda_repository"]),
        "branch": st.sampled_from(["auto", *(str(row.number) for row in data.BRANCHES)]),
        "modules": st.sampled_from(["auto", "open", "closed"]),
        "scope": st.sampled_from(["auto", "compute", "desktop"]),
        "toolkits": st.lists(st.sampled_from([row.version for row in data.TOOLKITS]), max_size=2),
    },
)


@given(HOSTS, REQUESTS)
def test_a_plan_is_within_what_the_gpus_and_the_branch_support(host: dict[str, Any], request: dict[str, Any]) -> None:
    plan = plan_driver(host, request)
    if plan.refused:
        assert not (plan.install or plan.remove or plan.pinning or plan.changes)
        return
    branch = next(row for row in data.BRANCHES if row.number == plan.branch)
    assert plan.modules in branch.modules
    for gpu in host["gpus"]:
        generation = next(row for row in data.GENERATIONS if row.name == gpu["generation"])
        assert plan.modules in generation.modules
        assert plan.branch <= (generation.highest_branch or plan.branch)
        assert plan.branch >= int(lowest_driver(int(gpu["device_id"], 16)).partition(".")[0] or 0)
    if any(gpu["generation"] == "Blackwell" for gpu in host["gpus"]):
        assert not [name for name in plan.install if "dkms" in name and "open" not in name]


@given(HOSTS, REQUESTS)
def test_the_plan_matches_the_request(host: dict[str, Any], request: dict[str, Any]) -> None:
    plan = plan_driver(host, request)
    for field in ("source", "branch", "modules", "scope"):
        if not plan.refused and request.get(field, "auto") != "auto":
            assert str(getattr(plan, field)) == request[field]


@given(HOSTS, REQUESTS)
def test_a_plan_that_is_carried_out_leaves_nothing_to_do(host: dict[str, Any], request: dict[str, Any]) -> None:
    first = plan_driver(host, request)
    if first.refused:
        return
    after = carry_out(host, first)
    second = plan_driver(after, {**request, "own_holds": first.hold})
    assert problems(second) == []
    assert (second.changes, second.install, second.remove, second.pinning, second.reboot) == (False, [], [], [], [])
    assert [second.source, second.branch, second.modules, second.scope] == [
        first.source,
        first.branch,
        first.modules,
        first.scope,
    ]
    assert second.hold == first.hold
    # And what was asked for stays when nobody asks any more, as far as no toolkit had a say.
    if not request.get("toolkits"):
        third = plan_driver(after, {"own_holds": first.hold})
        assert (third.branch, third.modules, third.source, third.changes) == (
            first.branch,
            first.modules,
            first.source,
            False,
        )


@settings(max_examples=50)
@given(HOSTS, REQUESTS, REQUESTS)
def test_a_change_leaves_one_branch_and_one_source(
    host: dict[str, Any], before: dict[str, Any], now: dict[str, Any]
) -> None:
    """Check that after the next plan only packages of the new driver are installed, or such as apt replaces in place."""
    first = plan_driver(host, before)
    if first.refused:
        return
    middle = carry_out(host, first)
    second = plan_driver(middle, {**now, "own_holds": first.hold})
    if second.refused or not second.changes:
        return
    after = carry_out(middle, second)
    driver = {name: entry for name, entry in after["packages"].items() if branch_of(entry["version"])}
    assert {branch_of(entry["version"]) for entry in driver.values()} == {second.branch}
    assert {entry["origin"] for entry in driver.values()} == {second.source}

# SPDX-License-Identifier: GPL-3.0-or-later
"""What a planned driver means for recorded hosts: transaction, lock, files, units, and what is proven."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import Package
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import driver_plan as nvidia
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_change import (
    INSTALLED,
    Change,
    Failure,
    Record,
    Simulation,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_choice import Request, plan_driver

from tests.unit.support.nvidia import hosts as gpu_hosts

OLD, NEW = "580.159.04", "590.48.01"
PARAMS = {
    "branch": "auto",
    "upgrade": False,
    "interrupt": False,
    "ignore_build_failures": False,
    "module_options": {},
    "mok_password": "",
    "host_name": "debian12",
}
See = Callable[..., nvidia.Seen]


@pytest.fixture
def see(tmp_path: Path) -> See:
    """See a recorded host with a request: `see("healthy_workstation", {"branch": "590"}, record=..., loaded=...)`."""

    def look(
        name: str, request: dict[str, Any] | None = None, *, offered: Sequence[str] = (), **seen: Any
    ) -> nvidia.Seen:
        facts = gpu_hosts.gather(name, Path(tempfile.mkdtemp(dir=tmp_path)))
        facts["free_bytes"] = dict.fromkeys(facts["free_bytes"], 10**12)
        facts["holders"] = [row for row in facts["holders"] if row["command"] == "nvidia-persiste"]
        for rows in facts["available"].values():
            rows += [{"version": version, "origins": ["cuda_repository"]} for version in offered]
        facts.update(seen.pop("facts", {}))
        planned = plan_driver(facts, request or {})
        record = seen.pop("record", Record())
        asked = Request.from_dict({**(request or {}), "own_holds": record.held})
        return nvidia.Seen(facts=facts, plan=planned, record=record, request=asked, **seen)

    return look


def statuses(rows: list[dict[str, str]]) -> dict[str, str]:
    return {row["id"].removeprefix("nvidia_driver."): row["status"] for row in rows}


def unmet(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {row["variable"]: row["problem"] for row in rows if not row["ok"]}


# --- the transaction ---


def test_a_bare_host_gets_pin_headers_and_driver_in_one_transaction(see: See) -> None:
    seen = see("nouveau_bound")
    change = nvidia.change_of(seen.facts, seen.plan)
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
    seen = see("healthy_workstation", {"branch": "590"}, offered=[f"{NEW}-1"])
    change = nvidia.change_of(seen.facts, seen.plan)
    assert change is not None
    assert {"nvidia-driver", "libcuda1", "nvidia-driver-cuda", "nvidia-kernel-open-dkms"} <= {*change.install}
    assert "nvidia-driver-pinning-580" in change.remove
    assert "nvidia-container-toolkit" not in {*change.install, *change.remove}
    # A desktop takes what the packages recommend.
    assert change.recommends


def test_the_archives_older_driver_may_take_the_place_of_a_newer_one(see: See) -> None:
    request = {"source": "archive", "branch": "535", "ignore_build_failures": True}
    seen = see("healthy_workstation", request)
    assert not seen.plan.refused
    change = nvidia.change_of(seen.facts, seen.plan)
    assert change is not None
    assert "Pin: release o=Debian\nPin-Priority: 1000" in change.preferences
    # Afterwards, apt goes upwards alone.
    assert "o=Debian" not in seen.plan.preferences


@pytest.mark.parametrize(("version", "goes_along"), [("570.133.07-1", False), ("580.159.04-1", True)])
def test_a_tool_of_the_archive_stays_and_one_of_another_source_goes_along(
    see: See, version: str, goes_along: bool
) -> None:
    seen = see("healthy_workstation", {"source": "archive", "branch": "535", "ignore_build_failures": True})
    seen.facts["packages"]["nvidia-modprobe"] = {
        "version": version,
        "origin": "archive",
        "status": "installed",
        "hold": False,
    }
    seen.facts["available"]["nvidia-modprobe"] = [{"version": "570.133.07-1", "origins": ["archive"]}]
    change = nvidia.change_of(seen.facts, seen.plan)
    assert change is not None
    assert ("nvidia-modprobe" in change.install) is goes_along


def test_what_is_as_planned_needs_no_transaction(see: See) -> None:
    seen = see("healthy_workstation")
    assert nvidia.change_of(seen.facts, seen.plan) is None
    assert nvidia.transaction_lines(seen, None) == {"before": "", "after": ""}


def test_what_dpkg_has_not_finished_of_the_driver_is_completed_first(see: See) -> None:
    seen = see("healthy_workstation", unfinished=["bash", "libcuda1:i386"])
    assert nvidia.to_complete(seen, None) == ["libcuda1:i386"]
    assert nvidia.transaction_lines(seen, None) == {
        "before": "libcuda1:i386: dpkg has not finished it\n",
        "after": "libcuda1:i386: whole\n",
    }
    assert statuses(nvidia.proofs(seen, None, [], lock=True))["packages"] == "fail"


def test_apt_would_come_to_other_packages_that_dpkg_has_not_finished(see: See) -> None:
    seen = see("healthy_workstation", {"branch": "590"}, offered=[f"{NEW}-1"], unfinished=["bash"])
    assert nvidia.to_complete(seen, nvidia.change_of(seen.facts, seen.plan)) == ["bash"]


def test_an_upgrade_names_driver_and_kernel(see: See) -> None:
    seen = see("healthy_workstation")
    change = nvidia.change_of(seen.facts, seen.plan, upgrade=True)
    assert change is not None
    assert {"libcuda1", "nvidia-open", "linux-image-amd64", "linux-headers-amd64"} <= {*change.install}
    assert "linux-image-6.1.0-37-amd64" not in change.install


def test_an_upgrade_brings_the_headers_of_the_new_kernel(see: See) -> None:
    seen = see("healthy_workstation")
    del seen.facts["packages"]["linux-headers-amd64"]
    change = nvidia.change_of(seen.facts, seen.plan, upgrade=True)
    assert change is not None
    assert {"linux-image-amd64", "linux-headers-amd64"} <= {*change.install}


def test_a_refused_plan_has_no_transaction(see: See) -> None:
    seen = see("run_leftovers")
    assert seen.plan.refused
    assert nvidia.change_of(seen.facts, seen.plan) is None


def test_the_diff_has_what_apt_would_do(see: See) -> None:
    simulation = Simulation({"libcuda1": f"{NEW}-1", "nvidia-modprobe": f"{NEW}-1"}, ["nvidia-driver-pinning-580"])
    seen = see("healthy_workstation", {"branch": "590"}, simulation=simulation)
    assert nvidia.transaction_lines(seen, nvidia.change_of(seen.facts, seen.plan)) == {
        "before": f"libcuda1 {OLD}-1\nnvidia-driver-pinning-580 {OLD}-1\n",
        "after": f"libcuda1 {NEW}-1\nnvidia-modprobe {NEW}-1\n",
    }


def test_without_lists_the_diff_has_names(see: See) -> None:
    seen = see("nouveau_bound")
    assert not nvidia.has_lists(seen.facts, seen.plan)
    shown = nvidia.transaction_lines(seen, nvidia.change_of(seen.facts, seen.plan))
    assert shown["before"] == ""
    assert "nvidia-driver-cuda (as the source has it)\n" in shown["after"]


def test_what_goes_is_what_came_and_nothing_else_needs(see: See) -> None:
    packages = {
        "nvidia-driver-cuda": Package("1", needs=frozenset({"libcuda1"})),
        "libcuda1": Package("1"),
        "dkms": Package("1"),
        "nvidia-kernel-open-dkms": Package("1", needs=frozenset({"dkms"})),
        "wireguard-dkms": Package("1", needs=frozenset({"dkms"})),
        "nvidia-settings": Package("1"),
    }
    record = Record(brought=["dkms", "libcuda1", "nvidia-driver-cuda", "nvidia-kernel-open-dkms", "gone-since"])
    seen = see(
        "healthy_workstation", record=record, packages=packages, automatic=frozenset({"libcuda1", "dkms", "gone-since"})
    )
    # wireguard-dkms needs dkms by now; nvidia-settings was there before the role.
    assert nvidia.leaving(seen) == ["libcuda1", "nvidia-driver-cuda", "nvidia-kernel-open-dkms"]


def test_a_library_of_the_driver_that_a_toolkit_depends_on_stays(see: See) -> None:
    packages = {
        "libcuda1": Package("1", depends=frozenset({frozenset({"libcuda-helper"})})),
        "libcuda-helper": Package("1"),
        "nvidia-driver-cuda": Package("1", depends=frozenset({frozenset({"libcuda1"})})),
        "nvidia-cuda-toolkit": Package("1", depends=frozenset({frozenset({"libcuda1"})})),
    }
    record = Record(brought=["libcuda1", "libcuda-helper", "nvidia-driver-cuda"])
    seen = see("healthy_workstation", record=record, packages=packages, automatic=frozenset({"libcuda-helper"}))

    assert nvidia.leaving(seen) == ["nvidia-driver-cuda"]


# --- what speaks against it ---


def test_an_unsound_transaction_is_refused(see: See) -> None:
    seen = see("healthy_workstation", {"branch": "590"}, simulation=Simulation({}, ["gnome-shell"]))
    change = nvidia.change_of(seen.facts, seen.plan)
    found = unmet(nvidia.requirements(seen, change, {**PARAMS, "branch": "590"}))
    assert "apt would also remove gnome-shell" in found["nvidia_driver_branch"]


def test_what_was_taken_back_is_tried_again_only_when_asked(see: See) -> None:
    failure = Failure("boot", "the module is not loaded", OLD, "6.1.0-37-amd64", restored="570.195.03")
    seen = see("healthy_workstation", record=Record(failure=failure))
    change = Change(580)
    assert "leads to driver 580.159.04 again" in unmet(nvidia.requirements(seen, change, PARAMS))["debian12"]
    assert unmet(nvidia.requirements(seen, change, {**PARAMS, "ignore_build_failures": True})) == {}
    # Another kernel is another attempt.
    other = dataclasses.replace(seen, record=Record(failure=dataclasses.replace(failure, kernel="6.1.0-40-amd64")))
    assert unmet(nvidia.requirements(other, change, PARAMS)) == {}


@pytest.mark.parametrize(("interrupt", "refused"), [(False, True), (True, False)])
def test_an_upgrade_does_not_take_the_driver_from_a_program(see: See, interrupt: bool, refused: bool) -> None:
    users = [{"pid": 1421, "command": "python3", "user": "alice", "devices": ["/dev/nvidia0"]}]
    seen = see("healthy_workstation", {"interrupt": interrupt}, facts={"holders": users})
    change = nvidia.change_of(seen.facts, seen.plan, upgrade=True)
    found = unmet(nvidia.requirements(seen, change, {**PARAMS, "upgrade": True, "interrupt": interrupt}))
    assert ("nvidia_driver_interrupt" in found) is refused
    if refused:
        assert "python3 (1421, alice)" in found["nvidia_driver_interrupt"]


KERNEL = {"linux-image-amd64": "6.1.150-1", "linux-image-6.1.0-40-amd64": "6.1.150-1"}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        pytest.param({"holds": ["linux-image-amd64"]}, "holds linux-image-amd64", id="somebody's hold"),
        pytest.param({"free_bytes": {"/": 10**9}}, "less than 10 GiB free on /", id="room"),
    ],
)
def test_what_an_upgrade_touches_is_checked_although_the_driver_is_as_planned(
    see: See, facts: dict[str, Any], said: str
) -> None:
    seen = see("healthy_workstation", facts=facts, simulation=Simulation(KERNEL, []))
    change = nvidia.change_of(seen.facts, seen.plan, upgrade=True)
    found = unmet(nvidia.requirements(seen, change, {**PARAMS, "upgrade": True}))
    assert any(said in problem for problem in found.values()), found
    # What the role itself holds is its own, and of a kernel alone no program takes notice.
    users = [{"pid": 1421, "command": "python3", "user": "alice", "devices": ["/dev/nvidia0"]}]
    own = see(
        "healthy_workstation",
        facts={"holds": ["linux-image-amd64"], "holders": users},
        simulation=Simulation(KERNEL, []),
        record=Record(held=["linux-image-amd64"]),
    )
    assert unmet(nvidia.requirements(own, change, {**PARAMS, "upgrade": True})) == {}


@pytest.mark.parametrize(("version", "refused"), [("6.12.90-1", False), ("6.12.107-1", True)])
def test_an_upgrade_to_a_kernel_that_the_driver_is_known_not_to_build_for(
    see: See, version: str, refused: bool
) -> None:
    seen = see("healthy_workstation", {"branch": "580"}, simulation=Simulation({"linux-image-6.12-amd64": version}, []))
    change = nvidia.change_of(seen.facts, seen.plan, upgrade=True)
    old = dataclasses.replace(seen, plan=dataclasses.replace(seen.plan, version="580.95.05"))
    found = unmet(nvidia.requirements(old, change, {**PARAMS, "upgrade": True}))
    assert any("for which it does not build" in problem for problem in found.values()) is refused
    # The release that comes along in the same change is what counts.
    simulation = Simulation({"linux-image-6.12-amd64": version, "libcuda1": f"{OLD}-1"}, [])
    assert unmet(nvidia.requirements(dataclasses.replace(old, simulation=simulation), change, PARAMS)) == {}


@pytest.mark.parametrize(("password", "refused"), [("", True), ("1234567", True), ("correct horse", False)])
def test_a_key_that_nobody_trusts_needs_a_password(see: See, password: str, refused: bool) -> None:
    untrusted = {"state": "enabled", "certificate": "/var/lib/dkms/mok.pub", "enrolled": False, "pending": False}
    seen = see("healthy_workstation", facts={"secure_boot": untrusted})
    assert seen.plan.secure_boot == "enroll"
    found = unmet(nvidia.requirements(seen, None, {**PARAMS, "mok_password": password}))
    assert ("nvidia_driver_mok_password" in found) is refused


# --- files and units ---


def test_the_archives_components_come_first(see: See) -> None:
    assert nvidia.source_files("Types: deb\n") == [{"path": nvidia.ARCHIVE_SOURCE, "content": "Types: deb\n"}]
    assert nvidia.source_files(None) == []


@pytest.mark.parametrize(
    ("lock", "paths"),
    [
        (
            True,
            [
                "/etc/apt/apt.conf.d/52rigwright-nvidia-driver",
                "/etc/needrestart/conf.d/rigwright-nvidia-driver.conf",
            ],
        ),
        (False, []),
    ],
)
def test_the_lock_is_told_to_those_that_would_break_it(see: See, lock: bool, paths: list[str]) -> None:
    files = nvidia.apt_files(see("healthy_workstation"), lock)
    assert [row["path"] for row in files] == paths
    assert nvidia.directories(files) == [
        {"path": path} for path in ("/etc/needrestart", "/etc/needrestart/conf.d") if lock
    ]


def test_without_a_pinning_package_the_role_pins(see: See) -> None:
    files = nvidia.apt_files(see("mismatch_after_upgrade"), lock=False)
    (pin,) = files
    assert pin["path"] == "/etc/apt/preferences.d/rigwright-nvidia-driver"
    assert "Pin-Priority: -1" in pin["content"]


def test_nouveau_goes_once_there_is_a_module_or_one_is_about_to_come(see: See) -> None:
    bare = see("nouveau_bound")
    assert nvidia.modprobe_files(bare, None, {}) == []
    (told,) = nvidia.modprobe_files(bare, Change(580), {})
    assert "blacklist nouveau" in told["content"]
    (told,) = nvidia.modprobe_files(see("healthy_workstation"), None, {"NVreg_B": 1, "NVreg_A": 0})
    assert (
        "".join(
            f"options {module} NVreg_A=0 NVreg_B=1\n" for module in ("nvidia", "nvidia-current", "nvidia-current-open")
        )
        in told["content"]
    )


@pytest.mark.parametrize(
    ("value", "written"),
    [
        *((True, "1"), (False, "0"), (0, "0"), ("0x1f", "0x1f"), ("a=1;b=2,3", "a=1;b=2,3"), ('"a b"', '"a b"')),
        *((None, ""), ([1, 2], ""), ({}, ""), ("", ""), ("a b", ""), ('a"', ""), ("x\ninstall nvidia /bin/false", "")),
        *(("x\n", ""), ("x\\", ""), ('"a\nb"', "")),
    ],
)
def test_an_option_of_the_module_is_one_that_modprobe_understands(see: See, value: Any, written: str) -> None:
    seen, options = see("healthy_workstation"), {"NVreg_A": value}
    assert nvidia.option_value(value) == written
    refused = unmet(nvidia.requirements(seen, None, {**PARAMS, "module_options": options}))
    assert ("nvidia_driver_module_options" in refused) is (written == "")
    (told,) = nvidia.modprobe_files(seen, None, options)
    assert f"options nvidia NVreg_A={written}\n" in told["content"]


@pytest.mark.parametrize("name", ["b a d", "", "a\nb", "a-b", "a=b", "NVreg_A\n"])
def test_the_name_of_a_module_option(see: See, name: str) -> None:
    options = {name: 1, "NVreg_B": 1}
    refused = unmet(nvidia.requirements(see("healthy_workstation"), None, {**PARAMS, "module_options": options}))
    assert refused == {"nvidia_driver_module_options": f"has {name!r}, which modprobe cannot be told"}


def test_a_failed_build_leaves_nouveau(see: See) -> None:
    seen = see("failed_build")
    assert not seen.built
    assert nvidia.modprobe_files(seen, None, {}) == []


def test_ubuntus_daemon_is_told_to_work(see: See) -> None:
    unit = "[Service]\nExecStart=/usr/bin/nvidia-persistenced --user x --no-persistence-mode --verbose\n"
    files = nvidia.persistence_files(see("healthy_workstation", persistence_unit=unit))
    (drop_in,) = files
    assert drop_in["content"].endswith("ExecStart=\nExecStart=/usr/bin/nvidia-persistenced --user x --verbose\n")
    assert {"path": nvidia.PERSISTENCE_DROP_INS} in nvidia.directories(files)


def test_daemons_run_once_the_driver_is_loaded(see: See) -> None:
    def names(seen: nvidia.Seen) -> list[str]:
        return [row["name"] for row in nvidia.units(seen)]

    unit = "[Service]\nExecStart=/usr/bin/nvidia-persistenced\n"
    assert names(see("healthy_workstation", persistence_unit=unit)) == [nvidia.SETTLE, nvidia.PERSISTENCE]
    assert names(see("nouveau_bound", persistence_unit=unit)) == [nvidia.SETTLE]
    switches = see("healthy_workstation", persistence_unit=unit, facts={"nvswitch": True})
    assert nvidia.FABRIC in names(switches)


# --- what is left to do, and what is proven ---


def test_a_change_that_is_not_loaded_is_a_reason_to_reboot(see: See) -> None:
    seen = see("healthy_workstation", record=Record(change=Change(590, version=NEW, stage=INSTALLED)))
    assert nvidia.reboot_reasons(seen) == [f"driver {NEW} is installed and not loaded yet"]
    assert nvidia.reboot_reasons(see("healthy_workstation")) == []
    assert "nouveau is loaded" in nvidia.reboot_reasons(see("nouveau_bound"))


def test_a_kernel_that_the_role_brought_is_a_reason_to_reboot(see: See) -> None:
    def waits(**seen: Any) -> list[str]:
        host = see("healthy_workstation", **seen)
        host.facts["kernels"][0]["next"] = False
        host.facts["kernels"].append(
            {**host.facts["kernels"][0], "release": "6.1.0-40-amd64", "running": False, "next": True}
        )
        return nvidia.reboot_reasons(host)

    due = ["the kernel 6.1.0-40-amd64 boots next, 6.1.0-37-amd64 runs"]
    new = ["linux-image-6.1.0-40-amd64"]
    assert waits(record=Record(brought=new)) == due
    assert waits(record=Record(change=Change(580, version=OLD, stage=INSTALLED, new=new))) == due
    # One that came otherwise is no business of the role.
    assert waits() == []


def test_a_reboot_that_an_upgrade_will_need_is_announced(see: See) -> None:
    seen = see("healthy_workstation", simulation=Simulation(KERNEL, []))
    change = nvidia.change_of(seen.facts, seen.plan, upgrade=True)
    assert nvidia.reboot_reasons(seen, change) == ["the kernel 6.1.0-40-amd64 comes along and boots next"]
    seen = dataclasses.replace(seen, simulation=Simulation({"libcuda1": "580.170.01-1"}, []))
    assert nvidia.reboot_reasons(seen, change) == [f"driver {OLD} is loaded and will be replaced"]


def test_findings_of_a_host_that_is_as_planned(see: See) -> None:
    assert statuses(nvidia.findings(see("healthy_workstation"), None, [])) == {"reboot": "pass", "change": "pass"}


@pytest.mark.parametrize(("version", "status"), [(OLD, "fail"), (NEW, "pass")])
def test_a_driver_that_was_taken_back_is_a_fault_while_it_is_wanted(see: See, version: str, status: str) -> None:
    failure = Failure("build", "error: too few", version, "6.1.0-37-amd64", restored="570.195.03")
    found = nvidia.findings(see("healthy_workstation", record=Record(failure=failure)), None, [])
    assert statuses(found)["change"] == status
    assert "driver 570.195.03 is in place again" in found[1]["evidence"]


def test_a_key_that_waits_for_a_person_is_a_warning(see: See) -> None:
    assert statuses(nvidia.findings(see("mok_pending"), None, []))["secure_boot"] == "warn"


def test_proofs_of_a_healthy_workstation(see: See) -> None:
    seen = see("healthy_workstation")
    seen.facts["holds"] = seen.locked
    found = nvidia.proofs(seen, None, [], lock=True)
    assert set(statuses(found).values()) == {"pass"}, found


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        # Of a reboot that is due the rest of the proofs has to wait.
        ("mismatch_after_upgrade", {"matches": "warn", "reboot": "warn", "locked": "fail"}),
        ("failed_build", {"loaded": "fail", "dkms": "fail"}),
        ("mixed_repositories", {"packages": "fail"}),
    ],
)
def test_proofs_of_hosts_with_a_fault(see: See, name: str, faults: dict[str, str]) -> None:
    seen = see(name)
    reboot = nvidia.reboot_reasons(seen)
    found = statuses(nvidia.proofs(seen, nvidia.change_of(seen.facts, seen.plan), reboot, lock=True))
    assert faults.items() <= found.items(), found


def test_without_a_gpu_nothing_is_proven(see: See) -> None:
    found = statuses(nvidia.proofs(see("vm_without_gpu"), None, [], lock=True))
    assert (found["loaded"], found["matches"]) == ("skip", "skip")


def test_an_unlocked_driver_is_no_fault_where_nobody_asked_for_the_lock(see: See) -> None:
    assert statuses(nvidia.proofs(see("healthy_workstation"), None, [], lock=False))["locked"] == "skip"

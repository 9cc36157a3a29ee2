# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of hosts: without a driver, with a driver that does not match, with a lost card, without rights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import cards
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import verdict as verdict_of_health
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import CODES, NvmlError

from tests.unit.support.gpu.cards import ADDRESS, UUID, card
from tests.unit.support.gpu.machine import NOW, OTHER, UPTIME, Machine, entry, fail, whats, xid


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(cards.gpu_state, "read_card", lambda _nvml, facts, _tree: facts)
    return Machine(tmp_path)


def test_healthy_host_passes_and_has_nothing_unread(machine: Machine) -> None:
    result, state = machine.check()
    assert (result["verdict"], result["reasons"], result["unread"], result["since"]) == ("PASS", [], [], None)
    (gpu,) = result["gpus"]
    assert (gpu["uuid"], gpu["verdict"], gpu["since_last_check"]) == (UUID, "PASS", None)
    assert (state["boot"], list(state["gpus"])) == ("boot-one", [ADDRESS])


def test_processes_and_users_are_not_in_the_result(machine: Machine) -> None:
    machine.cards = [card(processes=[{"pid": 7, "command": "train --secret"}])]
    assert "secret" not in json.dumps(machine.check())


def test_xid_is_the_verdict_of_its_gpu_and_the_host(machine: Machine) -> None:
    machine.put_on_bus(OTHER)
    machine.cards = [card(), card(index=1, uuid="GPU-other", pci_address=OTHER)]
    machine.log(xid(109, "pid=7, name=train, Ch 00000008", OTHER))
    result, _state = machine.check()
    assert [gpu["verdict"] for gpu in result["gpus"]] == ["PASS", "RESET_GPU"]
    assert result["verdict"] == "RESET_GPU"
    assert [row["code"] for row in result["gpus"][1]["xids"]] == [109]


def test_only_xids_within_the_window_count(machine: Machine) -> None:
    machine.cards = [card(processes=[{"pid": 9}])]
    machine.log(xid(109, time=NOW - 7200), xid(31, time=NOW - 60))
    assert machine.check(window=3600)[0]["verdict"] == "RESTART_APP"
    assert machine.check()[0]["verdict"] == "RESET_GPU"


def test_xid_of_an_ended_program_is_over_outside_containers(machine: Machine) -> None:
    machine.log(xid(31, "pid=7, name=train, MMU Fault"))
    assert machine.check()[0]["verdict"] == "PASS"
    machine.write("/proc/7/comm", "train\n")
    assert machine.check()[0]["verdict"] == "RESTART_APP"
    (machine.root / "proc/7/comm").unlink()
    (machine.root / "proc/7").rmdir()
    machine.namespace("pid:[4026532999]")
    assert machine.check()[0]["verdict"] == "RESTART_APP"


# --- What is wrong with the driver ---


@pytest.mark.parametrize("name", ["LIB_RM_VERSION_MISMATCH", "DRIVER_NOT_LOADED", "LIBRARY_NOT_FOUND"])
def test_error_of_the_driver_is_a_verdict(machine: Machine, name: str) -> None:
    machine.error = fail(name)
    machine.log(xid(13))
    result, _state = machine.check()
    assert result["verdict"] == "REBOOT"
    assert [row["what"] for row in result["reasons"]] == [f"nvml_{name}"]
    (gpu,) = result["gpus"]
    assert (gpu["pci_address"], gpu["uuid"], gpu["verdict"]) == (ADDRESS, None, "REBOOT")
    assert [row["what"] for row in gpu["reasons"]] == [f"nvml_{name}", "xid_13"]


@pytest.mark.parametrize("name", ["DRIVER_NOT_LOADED", "LIBRARY_NOT_FOUND"])
def test_a_host_without_a_gpu_needs_no_driver(machine: Machine, name: str) -> None:
    machine.take_off_bus(ADDRESS)
    machine.error = fail(name)
    result, _state = machine.check()
    assert (result["verdict"], result["gpus"], result["reasons"]) == ("PASS", [], [])


@pytest.mark.parametrize("name", ["BINDING_NOT_FOUND", "NO_PERMISSION", "OPERATING_SYSTEM"])
def test_log_is_judged_without_nvml(machine: Machine, name: str) -> None:
    machine.error = fail(name)
    assert machine.check()[0]["verdict"] == "PASS"
    machine.log(xid(79))
    result, _state = machine.check()
    assert result["verdict"] == "REBOOT"
    assert len(result["unread"]) == 1 and name in result["unread"][0]


def test_lost_gpu_is_a_verdict_and_others_are_judged(machine: Machine) -> None:
    machine.put_on_bus(OTHER)
    lost: dict[str, Any] = {
        **dict.fromkeys(card()),
        "index": 1,
        "unreadable": [],
        "problem": fail("GPU_IS_LOST").as_result(),
    }
    machine.cards = [card(), lost]
    machine.log(xid(79, "GPU has fallen off the bus.", OTHER))
    result, _state = machine.check()
    # Which one it is, the bus and the log know.
    assert [(gpu["pci_address"], gpu["verdict"]) for gpu in result["gpus"]] == [(ADDRESS, "PASS"), (OTHER, "REBOOT")]
    assert [row["what"] for row in result["gpus"][1]["reasons"]] == ["nvml_GPU_IS_LOST", "xid_79"]


def test_lost_gpu_has_the_name_of_the_last_check(machine: Machine) -> None:
    _result, state = machine.check()
    machine.cards = [
        {**dict.fromkeys(card()), "index": 0, "unreadable": [], "problem": fail("GPU_IS_LOST").as_result()}
    ]
    for _look in range(2):
        result, state = machine.check(kept=json.dumps(state))
        assert [(gpu["uuid"], gpu["name"], gpu["verdict"]) for gpu in result["gpus"]] == [
            (card()["uuid"], card()["name"], "REBOOT")
        ]


def test_card_that_nvml_does_not_show_did_not_start(machine: Machine) -> None:
    machine.put_on_bus(OTHER)
    result, _state = machine.check()
    assert [(gpu["pci_address"], gpu["verdict"]) for gpu in result["gpus"]] == [(ADDRESS, "PASS"), (OTHER, "REBOOT")]


def test_cards_of_virtual_machines_and_others_are_no_problem(machine: Machine) -> None:
    machine.put_on_bus(OTHER, "vfio-pci")
    assert machine.check()[0]["verdict"] == "PASS"
    machine.put_on_bus("0000:e1:00.0")
    machine.namespace("pid:[4026532999]")
    assert machine.check()[0]["verdict"] == "PASS"


def test_xid_of_an_empty_slot_is_reported(machine: Machine) -> None:
    machine.log(xid(79, address=OTHER))
    result, _state = machine.check()
    assert [(gpu["pci_address"], gpu["verdict"]) for gpu in result["gpus"]] == [(ADDRESS, "PASS"), (OTHER, "REBOOT")]


def test_unreadable_value_is_listed(machine: Machine) -> None:
    refused = NvmlError(CODES["NO_PERMISSION"], "nvmlDeviceGetFanSpeed_v2").as_result()
    machine.cards = [card(unreadable=[refused])]
    result, _state = machine.check()
    assert result["verdict"] == "PASS"
    assert result["unread"] == ["GPU 0: nvmlDeviceGetFanSpeed_v2 says NO_PERMISSION"]


# --- The log ---


def test_container_does_not_report_foreign_gpus(machine: Machine) -> None:
    machine.put_on_bus(OTHER)
    machine.log(xid(79, address=OTHER), xid(31))
    machine.namespace("pid:[4026532999]")
    result, _state = machine.check()
    assert [(gpu["pci_address"], gpu["verdict"]) for gpu in result["gpus"]] == [(ADDRESS, "RESTART_APP")]


def test_lost_card_has_no_address_where_several_are_missing(machine: Machine) -> None:
    for address in (OTHER, "0000:e1:00.0"):
        machine.put_on_bus(address)
    lost: dict[str, Any] = {
        **dict.fromkeys(card()),
        "index": 1,
        "unreadable": [],
        "problem": fail("GPU_IS_LOST").as_result(),
    }
    machine.cards = [card(), lost]
    result, _state = machine.check()
    assert [gpu["pci_address"] for gpu in result["gpus"]] == [ADDRESS, None, OTHER, "0000:e1:00.0"]
    assert [gpu["verdict"] for gpu in result["gpus"]] == ["PASS", "REBOOT", "REBOOT", "REBOOT"]


# --- NVSwitches and links ---


def test_sxid_is_the_verdict_of_its_nvswitch_and_the_host(machine: Machine) -> None:
    head = "nvidia-nvswitch0: SXid (PCI:0000:05:00.0):"
    machine.log(
        entry(f"{head} 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)"),
        entry(f"{head} 20034, Fatal, Link 30 LTSSM Fault Up"),
        entry(f"{head} 20034, Severity 1 Engine instance 30 Sub-engine instance 00"),
    )
    result, _state = machine.check()
    (switch,) = result["nvswitches"]
    assert (switch["name"], switch["pci_address"], whats(switch)) == (
        "nvswitch0",
        "0000:05:00.0",
        {"sxid_12028": "MONITOR", "sxid_20034": "RESET_GPU"},
    )
    assert (result["verdict"], result["gpus"][0]["verdict"]) == ("RESET_GPU", "PASS")
    assert machine.check(window=30)[0]["nvswitches"] == []


def test_links_down_at_the_first_check_are_reported(machine: Machine) -> None:
    down = {"count": 18, "active": 16, "links": [{"link": n, "active": n not in (3, 7)} for n in range(18)]}
    machine.cards = [card(nvlink=down)]
    (row,) = machine.check()[0]["gpus"][0]["reasons"]
    assert (row["what"], row["verdict"]) == ("nvlinks_down", "RESET_GPU")
    assert "16 of 18" in row["evidence"] and "not 3, 7" in row["evidence"]


def test_fabric_in_progress_is_allowed_soon_after_the_boot(machine: Machine) -> None:
    machine.cards = [card(fabric={"state": "in_progress", "status": "SUCCESS"})]
    assert machine.check()[0]["verdict"] == "REBOOT"
    machine.write("/proc/uptime", "120.00 1.00\n")
    assert machine.check()[0]["verdict"] == "MONITOR"


# --- Xids again and again ---


def warp(gpc: int, pid: int, time: float) -> str:
    return xid(
        13, f"pid={pid}, name=a, Graphics SM Warp Exception on (GPC {gpc}, TPC 2, SM 0): Out Of Range", time=time
    )


def test_xids_at_one_place_count_after_their_programs_end(machine: Machine) -> None:
    machine.log(*(warp(1, number, NOW - number) for number in range(1, 51)))
    gpu = machine.check()[0]["gpus"][0]
    (row,) = gpu["reasons"]
    assert (gpu["verdict"], row["what"], gpu["xids"]) == ("MONITOR", "xid_13_repeated", [])
    assert "50 lines at GPC 1, TPC 2" in row["evidence"]


def test_contained_memory_errors_are_counted_over_boots(machine: Machine) -> None:
    machine.log(*(xid(94, time=NOW - 3600 * number) for number in range(1, 7)))
    first, state = machine.check()
    machine.reboot(2)
    machine.log(*(xid(94, time=NOW + 600 * number) for number in range(1, 6)))
    second, state = machine.check(NOW + 4000, kept=json.dumps(state))
    assert [first["verdict"], whats(second["gpus"][0])] == ["PASS", {"xid_94_repeated": "MONITOR"}]
    # A day later.
    machine.log()
    assert machine.check(NOW + 100_000, kept=json.dumps(state))[0]["verdict"] == "PASS"


def test_many_lines_of_one_crash_are_one_error_of_a_program(machine: Machine) -> None:
    machine.log(*(warp(number % 8, 7, NOW - 60) for number in range(80)))
    assert machine.check()[0]["verdict"] == "PASS"


# --- The last check ---


def test_new_card_in_a_slot_has_no_history(machine: Machine) -> None:
    machine.log(xid(119))
    kept = ""
    for number in range(3):
        machine.write("/proc/sys/kernel/random/boot_id", f"boot-{number}\n")
        machine.cards = [card(uuid="GPU-old" if number < 2 else "GPU-new")]
        result, state = machine.check(NOW + number * 600, kept=kept)
        kept = json.dumps(state)
    assert (result["verdict"], result["gpus"][0]["since_last_check"]) == ("RESET_GPU", None)


def test_counters_are_compared_with_the_last_check_not_with_0(machine: Machine) -> None:
    machine.cards = [card(counters__pcie__replays=5000)]
    first, state = machine.check()
    assert first["verdict"] == "PASS"
    machine.cards = [card(counters__pcie__replays=5400)]
    result, _state = machine.check(NOW + 600, kept=json.dumps(state))
    assert (result["since"], result["gpus"][0]["since_last_check"]["pcie_replays"]) == (NOW, 400)
    assert [row["what"] for row in result["gpus"][0]["reasons"]] == ["pcie_replays"]


def test_gpu_reset_between_two_checks_is_healthy(machine: Machine) -> None:
    machine.log(xid(119, time=NOW - 60))
    machine.cards = [card(counters__recovery_action="reset")]
    first, state = machine.check()
    assert first["verdict"] == "RESET_GPU"
    machine.cards = [card()]
    second, state = machine.check(NOW + 600, kept=json.dumps(state))
    assert (second["verdict"], [row["code"] for row in second["gpus"][0]["xids_over"]]) == ("PASS", [119])
    # And stays so, until there is another one.
    third, state = machine.check(NOW + 1200, kept=json.dumps(state))
    assert third["verdict"] == "PASS"
    machine.log(xid(119, time=NOW - 60), xid(119, time=NOW + 1300))
    assert machine.check(NOW + 1800, kept=json.dumps(state))[0]["verdict"] == "RESET_GPU"


def asks(machine: Machine, action: str, *arguments: Any, **options: Any) -> tuple[str, str]:
    """Check a card with this recovery action; return the verdict, and the state for the next check."""
    machine.cards = [card(counters__recovery_action=action)]
    result, state = machine.check(*arguments, **options)
    return result["verdict"], json.dumps(state)


def test_xid_between_reset_and_check_counts(machine: Machine) -> None:
    _verdict, kept = asks(machine, "reset")
    machine.log(xid(119, time=NOW + 500), xid(48, time=NOW + 550))
    verdict, kept = asks(machine, "none", NOW + 600, kept=kept)
    assert verdict == "RESET_GPU"
    # An Xid 154 names the moment.
    machine.log(
        xid(119, time=NOW + 500), xid(154, "GPU recovery action changed from 0x1 (a) to 0x0 (None)", time=NOW + 560)
    )
    assert asks(machine, "none", NOW + 1200, kept=kept)[0] == "PASS"


def test_xid_that_the_check_itself_caused_is_over_after_a_reset(machine: Machine) -> None:
    _verdict, kept = asks(machine, "reset", took=50)
    machine.log(xid(119, time=NOW + 45))
    assert asks(machine, "none", NOW + 600, kept=kept)[0] == "PASS"


# --- The log rotates ---

LASTING = sorted(
    row.code for row in data.XIDS if verdict_of_health.rank(row.verdict) > verdict_of_health.rank("MONITOR")
)


@pytest.mark.parametrize("code", LASTING)
def test_verdict_stays_when_the_log_has_lost_its_xid(machine: Machine, code: int) -> None:
    machine.write("/proc/7/comm", "train\n")
    machine.cards = [card(processes=[{"pid": 7}])]
    machine.log(xid(code, "pid=7, name=train, text", time=NOW - 60))
    first, state = machine.check()
    for number in (1, 2):
        machine.log(entry("NVRM: another message", time=NOW))
        again, state = machine.check(NOW + 600 * number, kept=json.dumps(state))
        assert (again["verdict"], whats(again["gpus"][0])) == (first["verdict"], whats(first["gpus"][0]))
    # The boot repairs it.
    machine.write("/proc/sys/kernel/random/boot_id", "boot-two\n")
    assert machine.check(NOW + 1800, 60, kept=json.dumps(state))[0]["verdict"] == "PASS"


def test_lost_xid_is_over_after_a_reset_or_with_its_program(machine: Machine) -> None:
    machine.log(xid(119, time=NOW - 60))
    _verdict, kept = asks(machine, "reset")
    machine.log()
    assert asks(machine, "reset", NOW + 600, kept=kept)[0] == "RESET_GPU"
    assert asks(machine, "none", NOW + 600, kept=kept)[0] == "PASS"


def test_kept_xid_counts_once_and_within_its_window(machine: Machine) -> None:
    machine.log(xid(119, time=NOW - 60))
    _result, state = machine.check()
    machine.log(xid(119, time=NOW - 58))
    again, state = machine.check(NOW + 600, kept=json.dumps(state))
    assert len(again["gpus"][0]["xids"]) == 1
    machine.log()
    result, state = machine.check(NOW + 1200, window=300, kept=json.dumps(state))
    assert result["verdict"] == "PASS"
    assert machine.check(NOW + 1800, kept=json.dumps(state))[0]["verdict"] == "RESET_GPU"


def test_kept_xid_is_not_of_the_next_card_in_the_slot(machine: Machine) -> None:
    machine.log(xid(48, time=NOW - 60))
    _result, state = machine.check()
    machine.log()
    machine.cards = [card(uuid="GPU-new")]
    assert machine.check(NOW + 600, kept=json.dumps(state))[0]["verdict"] == "PASS"


def test_state_of_an_earlier_version_has_no_kept_xids(machine: Machine) -> None:
    _result, state = machine.check()
    for row in (state, *state["gpus"].values()):
        for name in ("xids", "sxids", "unsupported", "no_room"):
            row.pop(name, None)
    result, _state = machine.check(NOW + 600, kept=json.dumps(state))
    assert (result["verdict"], result["unread"]) == ("PASS", [])


def test_sxid_stays_when_the_log_has_lost_it(machine: Machine) -> None:
    machine.log(entry("nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"))
    first, state = machine.check()
    machine.log()
    again, _state = machine.check(NOW + 600, kept=json.dumps(state))
    assert (again["verdict"], again["nvswitches"]) == (first["verdict"], first["nvswitches"])


# --- The clock is set ---


YEAR = 365 * 86400.0


def test_xid_after_the_clock_was_set_back_counts(machine: Machine) -> None:
    _verdict, kept = asks(machine, "reset", NOW + YEAR, 60)
    verdict, kept = asks(machine, "none", NOW + YEAR + 60, 120, kept=kept)
    assert verdict == "PASS"
    machine.log(xid(119, time=NOW + 600, uptime=700))
    assert asks(machine, "none", NOW + 660, 760, kept=kept)[0] == "RESET_GPU"


@pytest.mark.parametrize("step", [-YEAR, -7200, 7200, YEAR])
def test_recovered_gpu_stays_healthy_when_the_clock_is_set(machine: Machine, step: float) -> None:
    machine.log(xid(119, time=NOW - 60, uptime=40))
    _verdict, kept = asks(machine, "reset", NOW, 100)
    verdict, kept = asks(machine, "none", NOW + step + 600, 700, kept=kept)
    assert verdict == "PASS"
    assert asks(machine, "none", NOW + step + 1200, 1300, kept=kept)[0] == "PASS"


@pytest.mark.parametrize("step", [-YEAR, YEAR])
def test_counters_are_compared_when_the_clock_is_set(machine: Machine, step: float) -> None:
    machine.cards = [card(counters__pcie__replays=5000)]
    _result, state = machine.check()
    machine.cards = [card(counters__pcie__replays=5400)]
    result, _state = machine.check(NOW + step, 4200, kept=json.dumps(state))
    since = result["gpus"][0]["since_last_check"]
    assert (since["seconds"], since["pcie_replays"], result["since"]) == (600, 400, NOW)


def test_window_and_time_of_an_xid_stamped_by_another_clock(machine: Machine) -> None:
    machine.log(xid(79, time=NOW - 10 * 86400, uptime=UPTIME - 60))
    result, _state = machine.check(window=86400)
    assert (result["verdict"], result["gpus"][0]["xids"][0]["time"]) == ("REBOOT", NOW - 10 * 86400)
    machine.log(xid(109, time=NOW - 60, uptime=UPTIME - 3000))
    assert machine.check(window=600)[0]["verdict"] == "PASS"


def old(kept: str, **changes: Any) -> str:
    """Return the state as it was before it had the time of the boot."""
    state = json.loads(kept)
    return json.dumps({name: value for name, value in state.items() if name not in ("booted", "read_at")} | changes)


def test_gpu_that_recovered_before_an_update_stays_healthy(machine: Machine) -> None:
    machine.log(xid(119, time=NOW - 60, uptime=UPTIME - 60))
    verdict, kept = asks(machine, "reset")
    verdict, kept = asks(machine, "none", NOW + 600, kept=old(kept))
    assert verdict == "PASS"
    for number in (1200, 1800):
        verdict, kept = asks(machine, "none", NOW + number, kept=old(kept))
        assert verdict == "PASS"


def test_old_state_from_the_future_hides_no_xid(machine: Machine) -> None:
    _verdict, kept = asks(machine, "reset", NOW + YEAR, 60)
    machine.log(xid(119, time=NOW, uptime=100))
    assert asks(machine, "none", NOW + 60, 160, kept=old(kept))[0] == "RESET_GPU"


def test_recovery_action_ends_with_its_boot(machine: Machine) -> None:
    machine.cards = [card(counters__recovery_action="reboot")]
    _first, state = machine.check()
    machine.write("/proc/sys/kernel/random/boot_id", "boot-two\n")
    machine.cards = [card()]
    machine.log(xid(119, time=NOW + 500))
    assert machine.check(NOW + 600, kept=json.dumps(state))[0]["verdict"] == "RESET_GPU"


def test_xid_after_two_reboots_replaces_the_card(machine: Machine) -> None:
    machine.log(xid(119))
    kept, verdicts = "", []
    for number in range(3):
        machine.write("/proc/sys/kernel/random/boot_id", f"boot-{number}\n")
        result, state = machine.check(NOW + number * 600, kept=kept)
        verdicts.append(result["verdict"])
        kept = json.dumps(state)
    assert verdicts == ["RESET_GPU", "RESET_GPU", "REPLACE"]


@pytest.mark.parametrize("kept", ["{", '{"version": 99, "gpus": {}}'])
def test_damaged_state_is_unread_and_written_again(machine: Machine, kept: str) -> None:
    result, state = machine.check(kept=kept)
    assert result["verdict"] == "PASS"
    assert len(result["unread"]) == 1 and "the last check" in result["unread"][0]
    assert machine.check(NOW + 600, kept=json.dumps(state))[0]["unread"] == []

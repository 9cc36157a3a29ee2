# SPDX-License-Identifier: GPL-3.0-or-later
"""Missing GPUs: gone since the last check, dead when the driver was loaded, in a virtual machine, or unsupported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import cards, request

from tests.unit.support.gpu.cards import ADDRESS, card
from tests.unit.support.gpu.machine import NOW, OTHER, Machine, entry, fail, whats

NO_ANSWER = (
    f"NVRM: The NVIDIA GPU {OTHER}\nNVRM: (PCI ID: 10de:2335) installed in this system has\n"
    "NVRM: fallen off the bus and is not responding to commands.\n"
)
OTHER_UUID = "GPU-000000c1-0000-0000-0000-000000000000"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(cards.gpu_state, "read_card", lambda _nvml, facts, _tree: facts)
    return Machine(tmp_path)


def with_two(machine: Machine) -> str:
    """Return the state after a check of two GPUs, and remove the second GPU from NVML and the bus."""
    machine.put_on_bus(OTHER)
    machine.cards = [card(), card(index=1, uuid=OTHER_UUID, pci_address=OTHER)]
    kept = json.dumps(machine.check()[1])
    machine.take_off_bus(OTHER)
    machine.cards = [card()]
    return kept


def test_missing_gpu_is_reported_until_acknowledged(machine: Machine) -> None:
    kept, verdicts = with_two(machine), []
    for number, boot in enumerate((1, 1, 2, 3)):
        machine.reboot(boot)
        result, state = machine.check(NOW + 600 * number, kept=kept)
        kept = json.dumps(state)
        verdicts.append(result["verdict"])
        assert (result["gpus"][1]["uuid"], result["gpus"][1]["pci_address"]) == (OTHER_UUID, OTHER)
    assert verdicts == ["REBOOT", "REBOOT", "REPLACE", "REPLACE"]
    acknowledged = request.Request(acknowledged=[OTHER_UUID])
    result, state = machine.check(NOW + 3600, kept=kept, request=acknowledged)
    assert (result["verdict"], len(result["gpus"])) == ("PASS", 1)
    # It is forgotten then.
    assert machine.check(NOW + 4200, kept=json.dumps(state))[0]["verdict"] == "PASS"


def test_the_only_gpu_is_missing_too(machine: Machine) -> None:
    kept = json.dumps(machine.check()[1])
    machine.take_off_bus(ADDRESS)
    machine.write("/sys/bus/pci/devices/0000:00:00.0/vendor", "0x8086\n")
    machine.error = fail("DRIVER_NOT_LOADED")
    result, _state = machine.check(NOW + 600, kept=kept)
    assert (result["verdict"], whats(result["gpus"][0])) == ("REBOOT", {"missing": "REBOOT"})


def test_without_nvml_and_bus_nothing_is_missing(machine: Machine) -> None:
    kept = json.dumps(machine.check()[1])
    shutil.rmtree(machine.root / "sys")
    machine.error = fail("BINDING_NOT_FOUND")
    assert machine.check(NOW + 600, kept=kept)[0]["verdict"] == "PASS"


def test_returned_moved_or_replaced_gpu_is_not_missing(machine: Machine) -> None:
    kept = with_two(machine)
    moved = "0000:d1:00.0"
    for shown in (
        [card(), card(index=1, uuid=OTHER_UUID, pci_address=OTHER)],
        [card(), card(index=1, uuid=OTHER_UUID, pci_address=moved)],
        [card(), card(index=1, uuid="GPU-another", pci_address=OTHER)],
    ):
        machine.cards = shown
        assert machine.check(NOW + 600, kept=kept)[0]["verdict"] == "PASS"


def test_gpu_of_a_virtual_machine_is_not_missing(machine: Machine) -> None:
    kept = with_two(machine)
    machine.put_on_bus(OTHER, "vfio-pci")
    assert machine.check(NOW + 600, kept=kept)[0]["verdict"] == "PASS"


def test_container_misses_only_its_own_gpus(machine: Machine) -> None:
    kept = with_two(machine)
    machine.namespace("pid:[4026532999]")
    assert whats(machine.check(NOW + 600, kept=kept)[0]["gpus"][1]) == {"missing": "REBOOT"}
    machine.put_on_bus(OTHER)
    machine.put_on_bus("0000:e1:00.0", None)
    assert machine.check(NOW + 600, kept=kept)[0]["verdict"] == "PASS"
    (machine.root / f"sys/bus/pci/devices/{OTHER}/driver").unlink()
    assert whats(machine.check(NOW + 600, kept=kept)[0]["gpus"][1]) == {"no_driver": "REBOOT"}
    shutil.rmtree(machine.root / "sys")
    assert machine.check(NOW + 600, kept=kept)[0]["verdict"] == "PASS"


def test_gpu_lost_without_an_address_is_not_missing_later(machine: Machine) -> None:
    machine.put_on_bus(OTHER)
    lost: dict[str, Any] = {
        **dict.fromkeys(card()),
        "index": 0,
        "unreadable": [],
        "problem": fail("GPU_IS_LOST").as_result(),
    }
    machine.cards = [lost]
    state = machine.check()[1]
    assert "index 0" in state["gpus"]
    machine.cards = [card(), card(index=1, uuid=OTHER_UUID, pci_address=OTHER)]
    result, _state = machine.check(NOW + 600, kept=json.dumps(state))
    assert [gpu["verdict"] for gpu in result["gpus"]] == ["PASS", "PASS"]


def test_a_lost_gpu_that_is_off_the_bus_is_one_gpu(machine: Machine) -> None:
    kept = with_two(machine)
    lost: dict[str, Any] = {
        **dict.fromkeys(card()),
        "index": 1,
        "unreadable": [],
        "problem": fail("GPU_IS_LOST").as_result(),
    }
    machine.cards = [card(), lost]
    result, _state = machine.check(NOW + 600, kept=kept)
    assert [(gpu["pci_address"], gpu["verdict"]) for gpu in result["gpus"]] == [(ADDRESS, "PASS"), (OTHER, "REBOOT")]


@pytest.mark.parametrize("lines", [[NO_ANSWER], NO_ANSWER.splitlines()])
def test_gpu_dead_at_the_load_of_the_driver_is_reported(machine: Machine, lines: list[str]) -> None:
    machine.put_on_bus(OTHER, None)
    machine.log(*map(entry, lines))
    kept, verdicts = "", []
    for boot in (1, 2):
        machine.reboot(boot)
        result, state = machine.check(NOW + boot, kept=kept)
        kept = json.dumps(state)
        verdicts.append(whats(result["gpus"][1]))
    assert verdicts == [{"no_driver": "REBOOT", "xid_79": "REBOOT"}, {"no_driver": "REPLACE", "xid_79": "REBOOT"}]


def test_gpu_without_a_driver_on_purpose_is_healthy(machine: Machine) -> None:
    machine.put_on_bus(OTHER, None)
    assert machine.check()[0]["verdict"] == "REBOOT"
    machine.write(f"/sys/bus/pci/devices/{OTHER}/driver_override", "vfio-pci\n")
    assert machine.check()[0]["verdict"] == "PASS"
    machine.write(f"/sys/bus/pci/devices/{OTHER}/driver_override", "(null)\n")
    machine.error = fail("BINDING_NOT_FOUND")
    # nvidia is not loaded.
    assert machine.check()[0]["verdict"] == "PASS"
    machine.write("/sys/module/nvidia/initstate", "live\n")
    assert machine.check()[0]["verdict"] == "REBOOT"
    machine.write(f"/sys/bus/pci/devices/{OTHER}/device", "0x1b80\n")
    machine.write("/proc/cmdline", "quiet vfio-pci.ids=10de:1b80\n")
    assert machine.check()[0]["verdict"] == "PASS"


def test_old_ids_of_vfio_hide_no_dead_card(machine: Machine) -> None:
    kept = with_two(machine)
    machine.put_on_bus(OTHER, None)
    # They name another model than that of the card that works.
    machine.write(f"/sys/bus/pci/devices/{OTHER}/device", "0x1b80\n")
    machine.write("/etc/modprobe.d/vfio.conf", "options vfio-pci ids=10de:1b80\n")
    assert whats(machine.check(NOW + 600, kept=kept)[0]["gpus"][1]) == {"no_driver": "REBOOT"}
    assert machine.check(NOW + 600)[0]["verdict"] == "PASS"
    # The same model.
    machine.write(f"/sys/bus/pci/devices/{ADDRESS}/device", "0x1b80\n")
    assert whats(machine.check(NOW + 600)[0]["gpus"][1]) == {"no_driver": "REBOOT"}
    machine.write(f"/sys/bus/pci/devices/{OTHER}/driver_override", "vfio-pci\n")
    assert machine.check(NOW + 600, kept=kept)[0]["verdict"] == "PASS"


@pytest.mark.parametrize(
    "message",
    [
        f"NVRM: The NVIDIA GPU {OTHER} (PCI ID: 10de:1b80)\nNVRM: installed in this system is not supported by open\n",
        "NVRM: The NVIDIA GeForce GT 710 GPU installed in this system is\nNVRM:  supported through the NVIDIA 470.xx Legacy drivers.\n",
    ],
)
def test_unsupported_card_is_not_a_broken_card(machine: Machine, message: str) -> None:
    machine.put_on_bus(OTHER, None)
    machine.log(entry(message))
    assert whats(machine.check()[0]["gpus"][1]) == {"unsupported": "MONITOR"}


def no_room(bar: int) -> str:
    text = "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\nNVRM: BAR%d is 0M @ 0x0 (PCI:0000:c1:00.0)\n"
    return entry(text % bar)


@pytest.mark.parametrize(
    ("bar", "worked", "expected"),
    [
        (1, False, {"no_room": "MONITOR"}),
        (3, False, {"no_room": "MONITOR"}),
        # The firmware has always had room for it, so it is another fault.
        (0, False, {"no_driver": "REBOOT"}),
        (1, True, {"no_driver": "REBOOT"}),
    ],
)
def test_a_card_without_addresses(machine: Machine, bar: int, worked: bool, expected: dict[str, str]) -> None:
    kept = with_two(machine) if worked else ""
    machine.put_on_bus(OTHER, None)
    machine.log(no_room(bar))
    gpu = machine.check(NOW + 600, kept=kept)[0]["gpus"][1]
    assert whats(gpu) == expected and f"(BAR{bar} is 0M)" in gpu["reasons"][0]["evidence"]
    assert not {"absent", "bar"} & gpu["card"].keys()


def test_card_without_addresses_stays_so_without_its_message(machine: Machine) -> None:
    machine.put_on_bus(OTHER, None)
    machine.log(no_room(1))
    first, state = machine.check()
    machine.log()
    again, state = machine.check(NOW + 600, kept=json.dumps(state))
    assert again["gpus"][1]["reasons"] == first["gpus"][1]["reasons"]
    # What the log says now counts.
    machine.log(no_room(0))
    assert whats(machine.check(NOW + 1200, kept=json.dumps(state))[0]["gpus"][1]) == {"no_driver": "REBOOT"}
    machine.reboot(2)
    machine.log()
    # It is not the second boot without a driver.
    assert whats(machine.check(NOW + 1800, kept=json.dumps(state))[0]["gpus"][1]) == {"no_driver": "REBOOT"}


@pytest.mark.parametrize(("expected", "verdict"), [(None, "PASS"), (1, "PASS"), (2, "REBOOT")])
def test_gpus_are_counted_where_a_number_is_expected(machine: Machine, expected: int | None, verdict: str) -> None:
    result, _state = machine.check(request=request.Request(expected))
    assert (result["verdict"], [row["what"] for row in result["reasons"]]) == (
        verdict,
        ["gpu_count"] if verdict == "REBOOT" else [],
    )


def test_ignored_reason_is_reported_and_does_not_count(machine: Machine) -> None:
    machine.cards = [card(pcie__gpu_max_generation=6)]
    assert whats(machine.check()[0]["gpus"][0]) == {"pcie_slot": "MONITOR"}
    result, _state = machine.check(request=request.Request(ignored=["pcie_slot"]))
    assert (result["verdict"], whats(result["gpus"][0])) == ("PASS", {"pcie_slot": "PASS"})

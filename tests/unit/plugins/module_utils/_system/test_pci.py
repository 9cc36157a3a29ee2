# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._system.pci import (
    DEVICES,
    DISPLAY,
    SWITCH,
    nvidia_devices,
)


@pytest.fixture
def machine(tmp_path: Path) -> Tree:
    devices = {
        "0000:00:02.0": ("0x8086", "0x030000"),
        "0000:01:00.0": ("0x10de", "0x030000"),
        "0000:01:00.1": ("0x10de", "0x040300"),
        "0000:41:00.0": ("0x10de", "0x030200"),
        "0000:81:00.0": ("0x10de", "0x068000"),
    }
    for address, (vendor, kind) in devices.items():
        device = Path(f"{tmp_path}{DEVICES}", address)
        device.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "class").write_text(f"{kind}\n")
    return Tree(str(tmp_path))


def test_displays_of_nvidia_are_found_and_their_sound_is_not(machine: Tree) -> None:
    assert nvidia_devices(machine, DISPLAY) == ["0000:01:00.0", "0000:41:00.0"]


def test_a_part_of_a_card_for_a_virtual_machine_is_no_card(machine: Tree) -> None:
    part = Path(machine.at(f"{DEVICES}/0000:41:00.4"))
    part.mkdir()
    (part / "vendor").write_text("0x10de\n")
    (part / "class").write_text("0x030200\n")
    assert "0000:41:00.4" in nvidia_devices(machine, DISPLAY)
    (part / "physfn").symlink_to("../0000:41:00.0")
    assert "0000:41:00.4" not in nvidia_devices(machine, DISPLAY)


def test_switches_are_found(machine: Tree) -> None:
    assert nvidia_devices(machine, SWITCH) == ["0000:81:00.0"]


def test_a_host_without_a_pci_bus_has_none(tmp_path: Path) -> None:
    assert nvidia_devices(Tree(str(tmp_path)), DISPLAY) == []

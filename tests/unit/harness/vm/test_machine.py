# SPDX-License-Identifier: GPL-3.0-or-later
"""What a playbook left on a machine of qemu, and disks that come late; a shell stands for qemu."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.sandbox.lab import Refusal
from harness.vm.machine import Played
from harness.vm.qemu import PORT, Disk, Machine

OUTPUT = """
TASK [ssh : Plan] ***
ok: [workstation]
TASK [ssh : Configure] ***
changed: [workstation]
TASK [storage : Make directories] ***
changed: [workstation] => (item=a)
RUNNING HANDLER [ssh : Restart] ***
skipping: [workstation]
"""


def test_the_tasks_that_changed_something_are_named() -> None:
    assert Played(0, OUTPUT, {}).changed == ["ssh : Configure", "storage : Make directories"]


def test_failed_findings_are_listed_by_id() -> None:
    rows = [{"id": "a.b", "status": "fail"}, {"id": "a.c", "status": "pass"}, {"id": "a.d", "status": "warn"}]
    assert list(Played(2, "", {"findings": rows}).failed) == ["a.b"]
    assert Played(2, "", {}).failed == {}


class Monitor(Machine):
    """What comes to the monitor goes to a file."""

    def command(self) -> list[str]:
        return ["sh", "-c", f"head -n 2 >'{self.place}/monitor'"]


def test_a_disk_is_plugged_into_the_free_port(tmp_path: Path) -> None:
    machine = Monitor("machine", "bios", tmp_path, tmp_path / "key", [])
    machine.start()
    machine.plug_in(Disk(tmp_path / "data", "DATA"))
    assert machine.process is not None
    assert machine.process.wait(60) == os.EX_OK
    machine.stop()
    add, plug = (tmp_path / "monitor").read_text().splitlines()
    assert add.startswith(f"drive_add 0 file={tmp_path / 'data'},")
    assert plug == f"device_add virtio-blk-pci,drive=late,serial=DATA,bus={PORT}"
    assert f"pcie-root-port,id={PORT}" in Machine.command(machine)


def test_nothing_is_plugged_into_a_machine_that_is_off(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="does not run"):
        Machine("machine", "bios", tmp_path, tmp_path / "key", []).plug_in(Disk(tmp_path / "data", "DATA"))

# SPDX-License-Identifier: GPL-3.0-or-later
"""Phases follow each other, one that is done is not done again, and one that was cut short is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import apply as bare_metal_apply
from ansible_collections.rigwright.workstation.plugins.modules import bare_metal_restore

Run = Callable[..., dict[str, Any]]
DONE = (0, "", "")
FACTS = {"serial": "NEW0", "wwn": "", "size": 5}


def step(*command: str) -> dict[str, Any]:
    return {"do": "run", "command": list(command), "writes": ["/dev/vda"]}


PLAN: dict[str, Any] = {
    "identity": "one",
    "disks": {},
    "groups": ["vg0"],
    "mapped": [],
    "phases": {
        "disks": [step("wipefs", "/dev/vda"), step("mkswap", "/dev/vda1")],
        "files": [step("files")],
        "system": [step("sync")],
    },
}


@pytest.fixture
def restore(run_module: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    path = str(tmp_path / "state.json")
    monkeypatch.setattr(bare_metal_apply.read_state, "__defaults__", (path,))
    monkeypatch.setattr(bare_metal_apply.write_state, "__defaults__", (path,))
    monkeypatch.setattr(bare_metal_apply, "LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(os.path, "ismount", lambda _path: False)
    (tmp_path / "by-id").mkdir()
    (tmp_path / "disk").touch()
    (tmp_path / "by-id/NEW0").symlink_to(tmp_path / "disk")
    disk = {"serial": "NEW0 ", "wwn": None, "size": 5}
    here = tmp_path / "by-id/NEW0"
    lsblk = f"lsblk --json --bytes --nodeps --output SERIAL,WWN,SIZE {here}"
    monkeypatch.setitem(PLAN, "disks", {str(here): {"device": str(tmp_path / "disk"), **FACTS}})

    def run(phase: str, *commands: str, check: bool = False, failing: str = "", **more: Any) -> dict[str, Any]:
        listed = {line: (1, "", "it broke") if line == failing else DONE for line in (*commands, failing) if line}
        # A disk is looked at before it is written to.
        if phase != "files":
            listed[lsblk] = (0, json.dumps({"blockdevices": [disk]}), "")
        return run_module(bare_metal_restore, check=check, commands=listed, plan=PLAN, phase=phase, **more)

    return run


DISKS = ("wipefs /dev/vda", "mkswap /dev/vda1")


def test_each_phase_is_carried_out_once(restore: Run) -> None:
    assert [step["command"][0] for step in restore("disks", *DISKS)["steps"]] == ["wipefs", "mkswap"]
    assert restore("disks")["changed"] is False
    assert restore("files", "files")["changed"] and restore("system", "sync")["changed"]
    assert not any(restore(phase)["changed"] for phase in ("disks", "files", "system"))


def test_check_mode_returns_the_steps_and_runs_none(restore: Run, tmp_path: Path) -> None:
    assert all(restore(phase, check=True)["changed"] for phase in ("disks", "files", "system"))
    assert not (tmp_path / "state.json").exists()


def test_a_phase_does_not_come_before_the_one_that_it_needs(restore: Run) -> None:
    result = restore("files")
    assert result["failed"] and "The phase disks comes before files" in result["msg"]


def test_a_second_run_is_refused_while_the_first_goes_on(restore: Run, tmp_path: Path) -> None:
    with bare_metal_apply.alone():
        result = restore("disks")
        assert result["failed"] and "wait until it has ended" in result["msg"]
        assert restore("disks", check=True)["changed"]
    assert not (tmp_path / "state.json").exists()
    assert restore("disks", *DISKS)["changed"]


def test_accepted_losses_are_named(restore: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Backup:
        def __init__(self, entry: dict[str, Any]) -> None:
            assert entry["url"] == "/mnt"

        def restore(self, *arguments: Any) -> list[str]:
            if not arguments[-1]:
                raise bare_metal_restore.Failed("no longer has all of these: /home/thesis")
            return ["/home/thesis"]

    monkeypatch.setattr(bare_metal_restore, "Backup", Backup)
    monkeypatch.setitem(PLAN["phases"], "files", [{"do": "restore", "target": "/target", "exclude": []}])
    restore("disks", *DISKS)
    result = restore("files", repository={"url": "/mnt"})
    assert result["failed"] and "no longer has all of these: /home/thesis. Remove the cause" in result["msg"]
    result = restore("files", repository={"url": "/mnt"}, accept_losses=True)
    assert result["lost"] == ["/home/thesis"] and "/home/thesis" in result["warnings"][0]


def test_a_cut_phase_is_repeated_after_closing_devices(restore: Run) -> None:
    result = restore("disks", "wipefs /dev/vda", failing="mkswap /dev/vda1")
    assert result["failed"] and "it broke" in result["msg"] and "goes on with the phase disks" in result["msg"]
    left_open = ("umount /run/rigwright_bare_metal/btrfs", "vgchange --activate n vg0", "udevadm settle")
    assert restore("disks", *DISKS, *left_open)["changed"]
    assert restore("files", "files")["changed"]


def test_the_disk_is_compared_right_before_it_is_written_to(restore: Run, tmp_path: Path) -> None:
    facts = next(iter(PLAN["disks"].values()))
    for key, value, message in (
        ("serial", "OLD0", "is another disk than in the plan"),
        ("size", 6, "is another disk than in the plan"),
        ("device", "/dev/vdb", "was /dev/vdb in the plan"),
    ):
        before, facts[key] = facts[key], value
        result = restore("disks")
        assert result["failed"] and message in result["msg"] and "Nothing was written to it" in result["msg"]
        facts[key] = before
    assert not (tmp_path / "state.json").exists()
    restore("disks", *DISKS)
    state = json.loads((tmp_path / "state.json").read_text())
    assert [*state["begun"].values()] == [FACTS]


def test_a_disk_in_use_is_not_written_to(restore: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def busy(path: str, flags: int, *rest: Any, **more: Any) -> int:
        if str(path).endswith("NEW0") and flags & os.O_EXCL:
            raise OSError(16, "Device or resource busy")
        return opened(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", busy)
    assert "is in use or gone (Device or resource busy)" in restore("disks")["msg"]

# SPDX-License-Identifier: GPL-3.0-or-later
"""The bare-metal drill without its machines: its requests to the playbook, and what counts as a difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.vm import drill
from harness.vm.drill import DRILLS
from harness.vm.qemu import Disk, Machine


def test_there_is_a_drill_for_each_release_and_firmware() -> None:
    assert set(DRILLS) == {f"{release}-{boot}" for release in ("debian12", "debian13") for boot in ("bios", "uefi")}
    assert drill.WITH_ALL in DRILLS
    # Each onto another size; larger and smaller ones are among them, and two disks.
    changes = [after - before for drill in DRILLS.values() for before, after in drill.disks]
    assert all(changes) and min(changes) < 0 < max(changes)
    assert max(len(drill.disks) for drill in DRILLS.values()) == 2


@pytest.mark.parametrize("name", DRILLS)
def test_no_request_names_the_disk_of_the_backup(name: str) -> None:
    request = drill.request(DRILLS[name])
    assert "BACKUP" not in str(request["bare_metal_disks"])
    assert len({*request["bare_metal_disks"], *request["bare_metal_keep"]}) == len(DRILLS[name].disks) + 1


def test_every_variable_of_a_request_is_one_of_the_playbook() -> None:
    text = drill.PLAYBOOK.read_text()
    assert yaml.safe_load(text)
    assert [name for name in drill.request(DRILLS["debian12-bios"]) if name not in text] == []


BEFORE: dict[str, Any] = {"files": {"'/etc/a'": ["-rw-r--r--", 0, 0, []]}, "users": ["root"], "swaps": 2}


@pytest.mark.parametrize(
    ("after", "lines"),
    [
        ({}, []),
        ({"users": []}, ["users: ['root'] -> []"]),
        ({"files": {}}, ["'/etc/a': ['-rw-r--r--', 0, 0, []] -> None"]),
        ({"files": {**BEFORE["files"], "'/b'": []}}, ["'/b': None -> []"]),
        ({"files": {"'/etc/a'": ["-rw-r--r--", 0, 0, [["security.capability", "01"]]]}}, None),
    ],
)
def test_every_difference_is_reported(after: dict[str, Any], lines: list[str] | None) -> None:
    found = drill.differences(BEFORE, {**BEFORE, **after})
    assert len(found) == 1 if lines is None else found == lines


def test_machines_listen_on_loopback_and_live_disks_are_volatile(tmp_path: Path) -> None:
    disks = [Disk(tmp_path / "new0", "NEW0"), Disk(tmp_path / "live.img", "LIVE", volatile=True)]
    key, kernel = tmp_path / "key", (tmp_path / "k", tmp_path / "i")
    command = Machine("live", "uefi", tmp_path, key, disks, kernel, port=2222).command()
    assert "user,id=n,hostfwd=tcp:127.0.0.1:2222-:22" in command
    assert any("new0" in word and "snapshot=off" in word for word in command)
    assert any("live.img" in word and "snapshot=on" in word for word in command)
    assert f"if=pflash,format=raw,file={tmp_path / 'firmware'}" in command
    assert "pflash" not in " ".join(Machine("old", "bios", tmp_path, key, disks).command())

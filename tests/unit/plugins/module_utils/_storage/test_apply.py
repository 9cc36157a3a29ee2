# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps on a host with fake programs, interrupted at each of them."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import apply
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import facts as disk_facts
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.disks import Content, Device, Disk
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.model import (
    Facts,
    Mounted,
    Plan,
    Point,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.plan import plan
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.request import read_entries


class Killed(Exception):
    pass


class Machine:
    """A disk, a mount and files; it dies before the command of this number."""

    def __init__(self, root: Path) -> None:
        self.root, self.mount = root, f"{root}/data"
        self.disk = Disk("/dev/sdb", 10**11, serial="B", names=frozenset(["/dev/sdb"]))
        self.mounted: dict[str, Mounted] = {}
        self.immutable: set[str] = set()
        self.commands: list[str] = []
        self.dies_at, self.in_use, self.broken_fstab = -1, False, False
        (root / "fstab").write_text("UUID=root / ext4 defaults 0 1\n")

    def run(self, command: Sequence[str], data: str | None = None) -> tuple[int, str, str]:
        line = " ".join(command)
        if not line.startswith(("blkid", "findmnt", "udevadm", "wipefs --no-act")):
            if len(self.commands) == self.dies_at:
                raise Killed(line)
            self.commands.append(line)
        program = command[0]
        part = self.disk.partitions[0] if self.disk.partitions else None
        if program == "sfdisk" and data:
            fields = dict(item.split("=", 1) for item in data.replace(",", " ").split() if "=" in item)
            table = data.split("label-id: ")[1].split()[0]
            content = Content(table="gpt", table_id=table, blank=False)
            self.disk = dataclasses.replace(self.disk, content=content, partitions=(Device("/dev/sdb1", 10**11),))
            self.part = fields["uuid"]
        elif program == "blkid" and part and command[-1] == part.path:
            kind = (
                f"TYPE={part.content.kind}\nLABEL={part.content.label}\nUUID={part.content.uuid}\n"
                if part.content.kind
                else ""
            )
            return 0, f"PART_ENTRY_UUID={self.part}\n{kind}", ""
        elif program.startswith("mkfs.") and part:
            label, uuid = command[command.index("-L") + 1], command[command.index("-U") + 1]
            plan_made = Content(kind=program[5:], label=label, uuid=uuid, signatures=(program[5:],), blank=False)
            self.disk = dataclasses.replace(self.disk, partitions=(dataclasses.replace(part, content=plan_made),))
        elif program == "unshare" and "+i" in line:
            self.immutable.add(command[-1])
        elif program == "chattr":
            self.immutable.discard(command[-1])
        elif program == "mount" and "remount" not in line and part:
            self.mounted[command[-1]] = Mounted(command[-2])
            self.disk = dataclasses.replace(self.disk, partitions=(dataclasses.replace(part, mounts=(command[-1],)),))
        elif program == "umount" and part:
            if self.in_use:
                return 32, "", "target is busy"
            self.mounted.pop(command[-1])
            self.disk = dataclasses.replace(self.disk, partitions=(dataclasses.replace(part, mounts=()),))
        elif program == "findmnt" and command[-1] != str(self.root / "fstab") and self.broken_fstab:
            return 1, "", "[E] parse error"
        return 0, "", ""

    def facts(self) -> Facts:
        path = self.root / "record/disks.json"
        record = json.loads(path.read_text()) if path.exists() else {}
        points = {self.mount: self.point(self.mount)}
        return Facts((self.disk,), self.mounted, points, (self.root / "fstab").read_text(), record)

    def point(self, path: str) -> Point:
        return Point(os.path.isdir(path), immutable=path in self.immutable)

    def plan(self, *rows: Any, **others: Any) -> Plan:
        given: Any = rows or [{"serial": "B", "mount": self.mount, **others}]
        entries, refused = read_entries(given)
        ids = iter(f"id-{number}" for number in range(9))
        plan_made = plan(entries, ["B"], self.facts(), lambda: next(ids))
        assert refused == [] and plan_made.requirements == []
        return plan_made

    def apply(self, plan_made: Plan) -> list[str]:
        return apply.Host(self.run, dict(self.facts().record), settles=True).apply(plan_made)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine(tmp_path)
    monkeypatch.setattr(disk_facts, "FSTAB", f"{tmp_path}/fstab")
    monkeypatch.setattr(apply, "HOME", f"{tmp_path}/record")
    monkeypatch.setattr(apply, "RECORD", f"{tmp_path}/record/disks.json")
    monkeypatch.setattr(disk_facts, "disks", lambda _run, _entries: (found.disk,))
    monkeypatch.setattr(disk_facts, "busy", lambda _path: False)
    monkeypatch.setattr(disk_facts, "mounts", lambda _run: found.mounted)
    monkeypatch.setattr(disk_facts, "point", lambda _run, path: found.point(path))
    return found


def todo(plan_made: Plan) -> list[str]:
    return [step for work in plan_made.works for step in work.todo] + list(plan_made.gone)


def test_disk_is_formatted_mounted_and_released(machine: Machine) -> None:
    before = (machine.root / "fstab").read_text()
    machine.apply(machine.plan())
    assert machine.mounted == {machine.mount: Mounted("/dev/sdb1")}
    assert machine.immutable == {machine.mount}
    assert f"UUID=id-2 {machine.mount} ext4 noatime,nofail" in (machine.root / "fstab").read_text()
    assert todo(machine.plan()) == []

    plan_made = plan([], [], machine.facts(), str)
    assert machine.apply(plan_made) == []
    assert (machine.root / "fstab").read_text() == before
    assert not os.path.exists(machine.mount) and not (machine.root / "record").exists()
    assert machine.disk.partitions[0].content.uuid == "id-2"


def test_killed_run_is_completed_by_the_next_one(machine: Machine) -> None:
    for number in range(40):
        machine.dies_at = len(machine.commands) + number
        try:
            machine.apply(machine.plan())
        except Killed:
            machine.dies_at = -1
            machine.apply(machine.plan())
        else:
            assert number > 4
            return
        assert todo(machine.plan()) == []
        assert [line for line in machine.commands if line.startswith("wipefs --all")] == []
        assert (machine.root / "fstab").read_text().count(machine.mount) == 1
        # As new.
        machine.apply(plan([], [], machine.facts(), str))
        machine.disk = Disk("/dev/sdb", 10**11, serial="B", names=frozenset(["/dev/sdb"]))
    pytest.fail("it never came to its end")


def test_disk_used_since_the_plan_is_left_alone(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    plan_made = machine.plan()
    monkeypatch.setattr(disk_facts, "busy", lambda _path: True)
    with pytest.raises(apply.Failed, match="is in use now"):
        machine.apply(plan_made)
    assert machine.commands == []


def test_a_mount_point_that_got_files_meanwhile_is_refused(machine: Machine) -> None:
    plan_made = machine.plan()
    os.makedirs(f"{machine.mount}/theirs")
    with pytest.raises(apply.Failed, match="has files that the mount would hide: theirs"):
        machine.apply(plan_made)
    assert machine.mounted == {}


def test_no_mount_point_is_made_behind_a_new_link(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = machine.root / "victim"
    victim.mkdir()
    machine.mount = f"{machine.root}/above/data"
    noted = apply.Host.note

    def note(host: apply.Host, key: str, given: Any) -> None:
        noted(host, key, given)
        if given and "made" in given and not os.path.lexists(f"{machine.root}/above"):
            os.symlink(victim, f"{machine.root}/above")

    monkeypatch.setattr(apply.Host, "note", note)
    with pytest.raises(apply.Failed, match="lies behind a link"):
        machine.apply(machine.plan())
    assert list(victim.iterdir()) == [] and machine.mounted == {}


def test_disk_in_use_stays_mounted_and_is_reported(machine: Machine) -> None:
    machine.apply(machine.plan())
    machine.in_use = True
    assert machine.apply(plan([], [], machine.facts(), str)) == [machine.mount]
    assert machine.mounted and machine.immutable == {machine.mount}
    # The record stays, so that the next run takes it back.
    machine.in_use = False
    assert machine.apply(plan([], [], machine.facts(), str)) == []
    assert not machine.mounted


def test_fstab_refused_by_findmnt_is_not_installed(machine: Machine) -> None:
    before = (machine.root / "fstab").read_text()
    machine.broken_fstab = True
    with pytest.raises(apply.Failed, match="parse error"):
        machine.apply(machine.plan())
    assert (machine.root / "fstab").read_text() == before
    assert [name for name in os.listdir(machine.root) if "fstab" in name] == ["fstab"]


def test_other_options_are_put_in_force_once(machine: Machine) -> None:
    machine.apply(machine.plan())
    machine.apply(machine.plan(options=["dev"]))
    assert machine.commands[-1].startswith("mount --options remount,noatime") and ",dev" in machine.commands[-1]
    assert todo(machine.plan(options=["dev"])) == []


def test_a_wipe_takes_the_old_partitions_from_the_kernel_as_well(machine: Machine) -> None:
    table = Content(table="gpt", table_id="theirs", blank=False)
    parts = (Device("/dev/sdb1", 10**10), Device("/dev/sdb2", 10**10))
    machine.disk = dataclasses.replace(machine.disk, content=table, partitions=parts)
    machine.apply(machine.plan(wipe=True))
    assert machine.commands[:4] == [
        "wipefs --all --quiet /dev/sdb1",
        "wipefs --all --quiet /dev/sdb2",
        "wipefs --all --quiet /dev/sdb",
        "partx --delete /dev/sdb",
    ]
    assert todo(machine.plan(wipe=True)) == []


@pytest.mark.parametrize(
    ("fs", "expected"),
    [
        ("ext4", "mkfs.ext4 -q -F -m 1 -L data -U u -O quota,project -E quotatype=prjquota /dev/x"),
        ("xfs", "mkfs.xfs -q -f -L data -m uuid=u /dev/x"),
        ("btrfs", "mkfs.btrfs -q -f -L data -U u /dev/x"),
    ],
)
def test_commands_that_make_file_systems(fs: str, expected: str) -> None:
    assert " ".join(apply.mkfs(fs, "data", "u", True, "/dev/x")) == expected


def test_vfat_takes_its_id_without_the_dash() -> None:
    assert apply.mkfs("vfat", "DATA", "AB12-CD34", False, "/dev/x") == [
        "mkfs.vfat",
        "-F",
        "32",
        "-n",
        "DATA",
        "-i",
        "AB12CD34",
        "/dev/x",
    ]

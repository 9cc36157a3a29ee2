# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import facts as disk_facts
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.disks import Content, Device, Disk
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.model import Point


def runner_of(text: str) -> disk_facts.Run:
    return lambda _command: (0, text, "")


@pytest.mark.parametrize(("begin", "end", "blank"), [(b"", b"", True), (b"x", b"", False), (b"", b"x", False)])
def test_a_disk_is_blank_when_its_first_and_last_mib_are(tmp_path: Path, begin: bytes, end: bytes, blank: bool) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(begin + bytes(5 * disk_facts.EDGE) + end)
    assert disk_facts.blank(str(disk)) is blank


def test_an_unreadable_disk_is_not_blank(tmp_path: Path) -> None:
    assert disk_facts.blank(str(tmp_path / "missing")) is False


@pytest.mark.parametrize(
    ("output", "names", "immutable"),
    [
        ("\n----i---------e------- /data\n", (), True),
        ("\n--------------e------- /data\n", (), False),
        # No lsattr, or a file system that knows no such thing.
        ("\n", (), None),
        ("a\nb\n\n----i----- /data\n", ("a", "b"), True),
        ("a\n\n", ("a",), None),
    ],
)
def test_a_mount_point_is_read_below_the_mount(
    tmp_path: Path, output: str, names: tuple[str, ...], immutable: bool | None
) -> None:
    commands: list[Sequence[str]] = []

    def run(command: Sequence[str]) -> tuple[int, str, str]:
        commands.append(command)
        return 0, output, ""

    assert disk_facts.point(run, str(tmp_path)) == Point(True, True, names, immutable)
    # Never outside of a namespace of its own, where it would unmount a disk.
    assert [tuple(command[:6]) for command in commands] == [disk_facts.BELOW]


def test_a_link_or_a_file_is_no_place_to_mount_at(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert disk_facts.point(runner_of(""), str(tmp_path / "link")) == Point(True, directory=False)
    assert disk_facts.point(runner_of(""), str(tmp_path / "missing")) == Point()
    # The kernel names such a mount by the path that the link leads to, so that the next run finds an unknown mount there.
    assert disk_facts.point(runner_of(""), str(tmp_path / "link" / "missing")) == Point(True, directory=False)


def test_of_two_mounts_at_one_place_the_upper_one_counts() -> None:
    rows = [
        {"target": "/data", "source": "/dev/a", "options": "rw"},
        {"target": "/data", "source": "/dev/b", "options": "rw,prjquota"},
    ]
    found = disk_facts.mounts(runner_of(json.dumps({"filesystems": rows})))
    assert (found["/data"].source, "prjquota" in found["/data"].options) == ("/dev/b", True)
    assert disk_facts.mounts(runner_of("")) == {}


@pytest.mark.parametrize(
    ("output", "finished", "found"),
    [
        ("lost+found\nthesis\n", False, {"/dev/a1"}),
        ("lost+found\n", False, set()),
        ("", False, set()),
        ("thesis\n", True, set()),
    ],
)
def test_unfinished_file_system_is_checked_read_only(output: str, finished: bool, found: set[str]) -> None:
    commands: list[Sequence[str]] = []

    def run(command: Sequence[str]) -> tuple[int, str, str]:
        commands.append(command)
        return 0, output, ""

    part = Device("/dev/a1", 1, Content(kind="ext4", uuid="u"))
    disk = Disk("/dev/a", 1, partitions=(part, Device("/dev/a2", 1, Content(kind="ext4", uuid="v"))))
    assert disk_facts.unfinished_with_files(run, [disk], {"A": {"uuid": "u", "finished": finished}}) == found
    for command in commands:
        assert tuple(command[:6]) == disk_facts.BELOW
        assert command[-3:] == ["ext4", ",noload", "/dev/a1"]


def test_the_features_of_an_ext4_are_read() -> None:
    assert disk_facts.features(
        runner_of("Filesystem features:      has_journal extent project\nMount count: 1\n"), "/dev/a"
    ) == {
        "has_journal",
        "extent",
        "project",
    }


def test_quota_options_of_the_kernel_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_facts, "text_of", lambda _path: "CONFIG_QFMT_V2=m\n# CONFIG_XFS_QUOTA is not set\n")
    assert disk_facts.kernel_options() == {"CONFIG_QFMT_V2": True, "CONFIG_XFS_QUOTA": False}

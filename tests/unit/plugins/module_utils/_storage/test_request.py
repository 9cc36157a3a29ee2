# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._storage import request

DATA: Any = {"serial": "A", "role": "data"}


def problems(*rows: Any) -> str:
    return "; ".join(f"{row['problem']} -> {row['remedy']}" for row in request.read_entries(rows)[1])


def test_role_of_a_disk_sets_mount_point_label_and_nofail() -> None:
    (entry,), refused = request.read_entries([DATA])
    assert (refused, entry.mount, entry.label, entry.fs) == ([], "/data", "data", "ext4")
    assert entry.options == ("noatime", "nofail", "nosuid", "nodev")


def test_disks_are_mounted_from_the_outside_in() -> None:
    rows: Any = [{"serial": "B", "role": "cache"}, DATA, {"serial": "C", "mount": "/data/a/b/"}]
    assert [entry.mount for entry in request.read_entries(rows)[0]] == ["/data", "/data/cache", "/data/a/b"]


@pytest.mark.parametrize(
    ("options", "quota", "expected"),
    [
        (["discard,nodev"], False, "noatime,nofail,nosuid,nodev,discard"),
        (["relatime"], False, "nofail,nosuid,nodev,relatime"),
        (["suid", "dev"], False, "noatime,nofail,suid,dev"),
        (["nofail"], True, "noatime,nofail,nosuid,nodev,prjquota"),
    ],
)
def test_own_mount_options_replace_defaults_of_their_kind(options: list[str], quota: bool, expected: str) -> None:
    (entry,) = request.read_entries([DATA | {"options": options, "quota": quota}])[0]
    assert ",".join(entry.options) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"id": "ata-x"}, "both `id` and `serial`"),
        ({"serial": ""}, "by neither"),
        ({"fs": "ntfs"}, "file system ntfs -> choose one of ext4"),
        ({"mount": "data"}, "no absolute path"),
        ({"mount": "/usr/local/data"}, "which is the system's"),
        ({"mount": "/var"}, "which is the system's"),
        ({"mount": "//"}, "which is the system's"),
        ({"mount": "/data/../etc"}, "which is the system's"),
        ({"label": "a" * 17}, "of 17 bytes, where ext4 has room for 16"),
        ({"label": "a" * 13, "fs": "xfs"}, "of 13 bytes, where xfs has room for 12"),
        ({"label": "scratch", "fs": "vfat"}, "[A-Z0-9_-]+"),
        ({"label": "my data "}, "may read otherwise"),
        ({"options": ["noexec nodev"]}, "empty or has a space"),
        ({"mode": "rwx"}, "with the mode 'rwx'"),
        # 0777 without quotes, as YAML reads it.
        ({"mode": 511}, "with the mode 511"),
        ({"quota": True, "fs": "btrfs"}, "with quotas, which btrfs has not"),
        ({"owner": "alice", "fs": "vfat", "label": "X"}, "options uid="),
    ],
)
def test_bad_disks_are_refused_with_the_remedy(change: Any, expected: str) -> None:
    assert expected in problems({**DATA, **change})


def test_duplicate_mount_point_or_label_is_refused() -> None:
    assert "mounts two disks at /data: A, B -> give each" in problems(
        DATA, {"serial": "B", "role": "data", "label": "other"}
    )
    assert "labels two file systems 'data': A, B" in problems(
        DATA, {"serial": "B", "mount": "/scratch", "label": "data"}
    )


# --- Directories and the environment ---

ENTRIES, _REFUSED = request.read_entries([DATA, {"serial": "B", "role": "cache", "quota": True, "mode": "0775"}])


def directories(rows: list[Any], environment: dict[str, str] | None = None) -> tuple[list[request.Directory], str]:
    found, refused = request.read_directories(rows, ["alice"], environment or {}, ENTRIES)
    return found, "; ".join(f"{row['variable']} {row['problem']} -> {row['remedy']}" for row in refused)


def test_shared_directory_is_setgid_and_parents_come_first() -> None:
    found, refused = directories(
        [{"path": "/data/x/y"}, {"path": "/data/x/", "mode": "0775", "setgid": True, "quota": "0"}]
    )
    assert [(other.path, oct(other.mode), other.shared) for other in found] == [
        ("/data/x", "0o2775", True),
        ("/data/x/y", "0o755", False),
    ]
    assert refused == ""


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"path": "/srv/x"}, "/srv/x, which is on no disk"),
        ({"path": "/data/../etc"}, "/etc, which is on no disk"),
        ({"path": "/data/x", "mode": "999"}, "with the mode '999'"),
        ({"path": "/data/x", "mode": 1533}, "with the mode 1533"),
        ({"path": "/data/x", "quota": "much"}, "with the quota 'much'"),
        ({"path": "/data/x", "quota": "1G"}, "and the disk at /data has none -> set `quota: true`"),
    ],
)
def test_bad_directories_are_refused(row: Any, expected: str) -> None:
    assert expected in directories([row])[1]


def test_one_directory_twice_is_refused() -> None:
    assert "twice" in directories([{"path": "/data/x"}, {"path": "/data/x/"}])[1]


def test_each_user_gets_directories_that_nobody_else_can_enter() -> None:
    found, refused = directories([], {"PIP_CACHE_DIR": "/data/users/{user}/pip"})
    assert [(other.path, other.owner, other.mode) for other in found] == [
        ("/data/users/alice", "alice", 0o700),
        ("/data/users/alice/pip", "alice", 0o700),
    ]
    assert refused == ""


@pytest.mark.parametrize(
    "name", ["HF_HOME", "PIP_CACHE_DIR", "UV_CACHE_DIR", "TORCH_HOME", "CONDA_PKGS_DIRS", "TMPDIR"]
)
def test_variable_that_would_share_a_token_or_code_is_refused(name: str) -> None:
    assert f"storage_environment has one {name} for all users" in directories([], {name: "/data/x"})[1]


def test_datasets_may_be_shared_in_a_directory_that_is_made() -> None:
    assert directories([{"path": "/data/hub"}], {"HF_HUB_CACHE": "/data/hub/"})[1] == ""
    assert "which no entry of storage_directories makes" in directories([], {"HF_HUB_CACHE": "/data/hub"})[1]


@pytest.mark.parametrize(
    ("name", "value"), [("A B", "/data/x"), ("X", "data"), ("X", "/data/$(reboot)"), ("X", '/data/"x')]
)
def test_a_variable_that_a_shell_would_read_otherwise_is_refused(name: str, value: str) -> None:
    assert "no variable with a plain absolute path" in directories([], {name: value})[1]


def test_a_users_directory_that_others_could_exchange_is_refused() -> None:
    expected = "below /data/cache, where others may put their own in its place"
    assert expected in directories([], {"TMPDIR": "/data/cache/{user}"})[1]
    open_parent = [{"path": "/data/users", "mode": "0777"}]
    assert "others may put their own" in directories(open_parent, {"TMPDIR": "/data/users/{user}"})[1]
    sticky = [{"path": "/data/users", "mode": "1777"}]
    assert directories(sticky, {"TMPDIR": "/data/users/{user}"})[1] == ""

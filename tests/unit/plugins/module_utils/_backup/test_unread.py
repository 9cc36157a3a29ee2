# SPDX-License-Identifier: GPL-3.0-or-later
"""What counts as a loss among the files that restic could not read."""

from __future__ import annotations

import json

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Job
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.unread import unread
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import Mount

MOUNTS = [
    Mount("/", "/dev/sda2", "ext4", device="8:2"),
    Mount("/home", "nas:/home", "nfs4", device="0:60"),
    Mount("/home/shared", "nas:/shared", "nfs4", device="0:61"),
    Mount("/home/bound", "nas:/home", "nfs4", "/alice", device="0:60"),
]


def job(*paths: str, one_file_system: bool = True) -> Job:
    return Job("home", "disk", "ws", paths=paths, one_file_system=one_file_system)


def message(item: str, reason: str) -> str:
    return json.dumps({"message_type": "error", "error": {"message": f"lstat {item}: {reason}"}, "item": item})


@pytest.mark.parametrize(
    ("reason", "is_loss"),
    [
        ("no such file or directory", False),
        ("not a directory", False),
        ("too many levels of symbolic links", False),
        ("stale NFS file handle", True),
        ("input/output error", True),
        ("permission denied", True),
    ],
)
@pytest.mark.parametrize("name", ["x", "no such file or directory", "x: not a directory", "x\nerror: y"])
def test_reason_is_read_and_no_name_of_a_file(name: str, reason: str, is_loss: bool) -> None:
    path = f"/home/mallory/{name}"
    error = {"message_type": "error", "error": {"message": f"open {path}: {reason}"}, "item": path}
    lost, gone = unread(json.dumps(error), job("/home"))
    assert (lost, gone) == (([path], set()) if is_loss else ([], {path}))


@pytest.mark.parametrize(
    ("item", "chosen", "is_loss"),
    [
        ("/home/shared", job("/home"), False),
        ("/home/shared/x", job("/"), False),
        ("/home/shared", job("/home", one_file_system=False), True),
        ("/home/shared/x", job("/", one_file_system=False), True),
        ("/home/shared/x", job("/home", "/home/shared"), True),
        ("/home/shared/x/y", job("/home/shared/x"), True),
        # The same file system once more: restic reads it.
        ("/home/bound/x", job("/home"), True),
        ("/home/alice", job("/home"), True),
        ("/home/alice", job("/"), False),
    ],
)
def test_stale_mount_is_a_loss_where_the_job_reads_it(item: str, chosen: Job, is_loss: bool) -> None:
    lost, gone = unread(message(item, "stale NFS file handle"), chosen, MOUNTS)
    assert (lost, gone) == (([item], set()) if is_loss else ([], {item}))


def test_mount_of_a_user_is_no_loss_and_one_of_root_is() -> None:
    error = message("/home/a/far", "permission denied")
    for user, expected in ((1000, ([], {"/home/a/far"})), (0, (["/home/a/far"], set()))):
        mounts = [Mount("/home/a/far", "a@far:/", "fuse.sshfs", user=user)]
        assert unread(error, job("/home"), mounts) == expected


@pytest.mark.parametrize("path", ["/home/a/far", "/home/a/far/work"])
def test_mount_of_a_user_that_a_job_names_is_a_loss(path: str) -> None:
    mounts = [Mount("/home/a/far", "a@far:/", "fuse.sshfs", user=1000)]
    item = "/home/a/far/work/x"
    assert unread(message(item, "input/output error"), job("/home", path), mounts) == ([item], set())

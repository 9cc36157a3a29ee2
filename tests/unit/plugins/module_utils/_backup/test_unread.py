# SPDX-License-Identifier: GPL-3.0-or-later
"""What counts as a loss among the files that restic could not read."""

from __future__ import annotations

import json

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.unread import unread
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import Mount


@pytest.mark.parametrize(
    ("reason", "is_loss"),
    [
        ("no such file or directory", False),
        ("not a directory", False),
        ("too many levels of symbolic links", False),
        ("stale NFS file handle", False),
        ("input/output error", True),
        ("permission denied", True),
    ],
)
@pytest.mark.parametrize("name", ["x", "no such file or directory", "x: not a directory", "x\nerror: y"])
def test_reason_is_read_and_no_name_of_a_file(name: str, reason: str, is_loss: bool) -> None:
    path = f"/home/mallory/{name}"
    error = {"message_type": "error", "error": {"message": f"open {path}: {reason}"}, "item": path}
    lost, gone = unread(json.dumps(error), ["/home"])
    assert (lost, gone) == (([path], set()) if is_loss else ([], {path}))


def test_mount_of_a_user_is_no_loss_and_one_of_root_is() -> None:
    error = {
        "message_type": "error",
        "error": {"message": "lstat /home/a/far: permission denied"},
        "item": "/home/a/far",
    }
    for user, expected in ((1000, ([], {"/home/a/far"})), (0, (["/home/a/far"], set()))):
        mounts = [Mount("/home/a/far", "a@far:/", "fuse.sshfs", user=user)]
        assert unread(json.dumps(error), ["/home"], mounts) == expected

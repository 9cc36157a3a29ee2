# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import acl


def number(_tag: int, name: str) -> int:
    return int(name)


def test_shared_directory_gives_its_mode_to_new_files() -> None:
    assert acl.complete([], 0o775, shared=True) == {(acl.USER_OBJ, ""): 7, (acl.GROUP_OBJ, ""): 7, (acl.OTHER, ""): 5}
    assert acl.complete([], 0o775, shared=False) == {}


def test_named_entries_need_a_mask() -> None:
    entries = acl.complete(["group:7:rwx", "user:5:r--", "other::---"], 0o755, shared=False)
    assert entries == {
        (acl.USER_OBJ, ""): 7,
        (acl.USER, "5"): 4,
        (acl.GROUP_OBJ, ""): 5,
        (acl.GROUP, "7"): 7,
        (acl.MASK, ""): 7,
        (acl.OTHER, ""): 0,
    }


@pytest.mark.parametrize(
    "text", ["group:ml", "group:ml:rw", "mask::rwx", "other:ml:r--", "group:ml:xwr", "default:group:ml:rwx", ""]
)
def test_invalid_entry_is_rejected(text: str) -> None:
    assert acl.parse_entry(text) is None


def test_the_bytes_are_those_of_the_kernel() -> None:
    entries = acl.complete(["user:1000:r-x"], 0o770, shared=True)
    assert acl.encode(entries, number).hex() == (
        "0200000001000700ffffffff02000500e803000004000700ffffffff10000700ffffffff20000000ffffffff"
    )
    assert acl.encode({}, number) == b""


def test_getfacl_reads_them(tmp_path: Path) -> None:
    program = shutil.which("getfacl")
    if not program:
        pytest.skip("getfacl is not installed here")
    try:
        os.setxattr(tmp_path, acl.ATTRIBUTE, acl.encode(acl.complete(["group:7:rwx"], 0o750, shared=True), number))
    except OSError:
        pytest.skip("no ACLs in this file system")
    output = subprocess.run(
        [program, "-n", "-d", "-c", "-p", str(tmp_path)], capture_output=True, text=True, check=True
    ).stdout
    assert output.split() == ["user::rwx", "group::r-x", "group:7:rwx", "mask::rwx", "other::---"]

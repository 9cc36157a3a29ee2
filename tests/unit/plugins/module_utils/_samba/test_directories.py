# SPDX-License-Identifier: GPL-3.0-or-later
"""Directories of shares: what they become, what they were, and those whose disk is away."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.record import Damaged
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import directories
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.directories import Original, State, Wanted

ROOTS = State(0, 0, 0o755)
SHARED = State(0, 100, 0o2775, directories.default_acl(0o2775))
WANTED = Wanted(None, 100, 0o2775, True)


def test_default_acl_equals_that_of_setfacl() -> None:
    # `setfacl -d -m u::rwx,g::rwx,o::rx DIR; getfattr -e hex -n system.posix_acl_default DIR`
    assert directories.default_acl(0o2775).hex() == (
        "02000000" + "01000700ffffffff" + "04000700ffffffff" + "20000500ffffffff"
    )


def test_directory_is_changed_once() -> None:
    first = directories.plan({"/d": ROOTS}, {"/d": WANTED}, {})
    assert (first.states, first.record) == ({"/d": SHARED}, {"/d": Original(ROOTS)})
    second = directories.plan({"/d": SHARED}, {"/d": WANTED}, first.record)
    assert (second.states, second.record) == ({}, first.record)


def test_removed_directory_gets_its_original_state() -> None:
    result = directories.plan({"/d": SHARED}, {}, {"/d": Original(ROOTS)})
    assert (result.states, result.record) == ({"/d": ROOTS}, {})


def test_default_acl_is_removed_with_its_option() -> None:
    result = directories.plan({"/d": SHARED}, {"/d": WANTED._replace(default_acl=False)}, {"/d": Original(ROOTS)})
    assert result.states["/d"].acl == b""
    theirs = State(0, 0, 0o755, b"theirs")
    assert directories.plan({"/d": theirs}, {"/d": Wanted(gid=100)}, {}).states["/d"].acl == b"theirs"


def test_correct_directory_is_neither_changed_nor_recorded() -> None:
    result = directories.plan({"/d": SHARED}, {"/d": WANTED}, {})
    assert (result.states, result.record) == ({}, {})


def test_directory_of_a_missing_disk_stays_on_record() -> None:
    record = {"/mnt/d": Original(ROOTS, "/mnt")}
    assert directories.plan({}, {"/mnt/d": WANTED}, record) == directories.Plan({}, record)
    assert directories.plan({}, {}, record) == directories.Plan({}, record)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = {"/d": Original(SHARED, "/data")}
    place = tmp_path / directories.RECORD.lstrip("/")
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(directories.dump(record)))
    assert directories.read_record(Tree(str(tmp_path))) == record


def test_state_of_another_shape_is_damage(tmp_path: Path) -> None:
    place = tmp_path / directories.RECORD.lstrip("/")
    place.parent.mkdir(parents=True)
    place.write_text('{"/d": {"state": [0, 0], "mount": ""}}')
    with pytest.raises(Damaged, match="is damaged"):
        directories.read_record(Tree(str(tmp_path)))


def test_nothing_is_read_where_no_disk_is_mounted(tmp_path: Path) -> None:
    assert directories.read(str(tmp_path), str(tmp_path)) is None
    assert directories.read(str(tmp_path / "gone"), "") is None
    found = directories.read(str(tmp_path), "")
    assert found and found.mode == os.stat(tmp_path).st_mode & 0o7777


def test_a_directory_is_written_and_read_back(tmp_path: Path) -> None:
    found = directories.read(str(tmp_path), "")
    assert found
    after = State(found.uid, found.gid, 0o2770, directories.default_acl(0o770))
    try:
        directories.write(str(tmp_path), after)
    except OSError as error:
        pytest.skip(f"no ACLs here: {error}")
    assert directories.read(str(tmp_path), "") == after
    directories.write(str(tmp_path), found)
    assert directories.read(str(tmp_path), "") == found


def test_a_link_in_the_place_of_a_directory_is_not_followed(tmp_path: Path) -> None:
    """Use a link of a user who can write above a share: otherwise the role would hand over the target of the link."""
    theirs = tmp_path / "theirs"
    (theirs / "below").mkdir(parents=True, mode=0o755)
    (tmp_path / "share").symlink_to(theirs)
    before = directories.read(str(theirs), "")
    assert before
    for path in (tmp_path / "share", tmp_path / "share" / "below"):
        assert directories.read(str(path), "") is None
        with pytest.raises(OSError, match="is a link or no directory"):
            directories.write(str(path), State(before.uid, before.gid, 0o777))
    assert directories.read(str(theirs), "") == before

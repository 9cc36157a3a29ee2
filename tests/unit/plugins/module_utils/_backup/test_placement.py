# SPDX-License-Identifier: GPL-3.0-or-later
"""Restored files on their way to their places. With restic: test__backup_restore.py."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import placement as places
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import directory


def tree(top: Path, *names: str, text: str = "new") -> Path:
    """Create files, and directories where a name ends with a slash."""
    top.mkdir(exist_ok=True)
    for name in names:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            (top / name).mkdir()
        else:
            (top / name).write_text(text)
    return top


def move(source: Path, target: Path, overwrite: bool = False, wanted: str = "/") -> places.Mover:
    mover = places.Mover([wanted], overwrite)
    with directory(str(source)) as old, directory(str(target)) as new:
        mover.move(old, new)
    return mover


def test_trees_move_by_one_rename_and_existing_files_stay(tmp_path: Path) -> None:
    source, target = tree(tmp_path / "s", "a/b/c", "a/d", "e"), tree(tmp_path / "t", "a/d", text="old")
    inode = (source / "a/b").stat().st_ino
    assert move(source, target).skipped == 1
    assert (target / "a/b").stat().st_ino == inode
    assert [(target / name).read_text() for name in ("a/b/c", "a/d", "e")] == ["new", "old", "new"]


def test_files_are_replaced_by_their_like_alone(tmp_path: Path) -> None:
    source, target = tree(tmp_path / "s", "a", "b", "c/d"), tree(tmp_path / "t", "a", "b/", "e", text="old")
    (target / "c").symlink_to("e")
    mover = move(source, target, overwrite=True)
    assert (target / "a").read_text() == "new" and (target / "c").is_symlink()
    assert mover.problems == [f"/{name}: something of another kind is there now" for name in "bc"]


def test_a_requested_directory_gets_its_old_attributes(tmp_path: Path) -> None:
    source, target = tree(tmp_path / "s", "home/a/x"), tree(tmp_path / "t", "home/a/y")
    for top, mode in ((source, 0o700), (target, 0o755)):
        for name in ("home", "home/a"):
            (top / name).chmod(mode)
            os.utime(top / name, (mode, mode))
    os.setxattr(source / "home/a", "user.comment", b"kept")
    move(source, target, overwrite=True, wanted="/home/a")
    found = [(target / name).stat() for name in ("home", "home/a")]
    assert [(status.st_mode & 0o777, int(status.st_mtime)) for status in found] == [(0o755, 0o755), (0o700, 0o700)]
    assert os.getxattr(target / "home/a", "user.comment") == b"kept"


def test_a_file_that_appears_at_the_last_moment_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tree(tmp_path / "s", "a"), tree(tmp_path / "t")
    link = os.link

    def late(name: str, *rest: Any, **more: Any) -> None:
        (target / "a").write_text("old")
        link(name, *rest, **more)

    monkeypatch.setattr(os, "link", late)
    assert (move(source, target).skipped, (target / "a").read_text()) == (1, "old")


def test_a_file_system_without_hard_links_does_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tree(tmp_path / "s", "a"), tree(tmp_path / "t")

    def refuse(*_words: object, **_more: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    assert move(source, target).problems == [] and (target / "a").read_text() == "new"


def test_files_that_cannot_be_moved_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tree(tmp_path / "s", "a/", "b/", "c"), tree(tmp_path / "t")
    rename = os.rename

    def refuse(name: str, *rest: Any, **more: Any) -> None:
        if name == "a":
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        rename(name, *rest, **more)

    monkeypatch.setattr(os, "rename", refuse)
    (problem,) = move(source, target).problems
    assert problem.startswith("/a: another file system, or a project with a quota") and "to another place" in problem
    assert sorted(os.listdir(target)) == ["b", "c"]


def test_the_stage_is_private_and_removed(tmp_path: Path) -> None:
    os.utime(tmp_path, (5, 5))
    with places.stage(str(tmp_path)) as stage:
        (name,) = os.listdir(tmp_path)
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o700 and name.startswith(places.PREFIX)
        tree(Path(stage.path), "a/b")
        assert os.listdir(stage.files) == ["a"]
    assert (os.listdir(tmp_path), tmp_path.stat().st_mtime) == ([], 5)


def test_the_owner_of_the_target_can_only_rename_the_stage(tmp_path: Path) -> None:
    elsewhere = tree(tmp_path / "elsewhere", "files/precious")
    home = tree(tmp_path / "home")
    with places.stage(str(home)) as stage:
        (name,) = os.listdir(home)
        (home / name).rename(home / "away")
        (home / name).symlink_to(elsewhere)
        tree(Path(stage.path), "a")
        assert (home / "away/files/a").exists()
    assert os.listdir(elsewhere / "files") == ["precious"] and os.listdir(home / "away") == []


def test_a_link_is_no_place(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(OSError, match="is a link"), places.stage(str(tmp_path / "link")):
        pass
    assert places.mount_of(str(tmp_path)) != places.mount_of("/proc")

# SPDX-License-Identifier: GPL-3.0-or-later
"""The day files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import days, sums


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / days.HOME.lstrip("/")).mkdir(parents=True)
    return Tree(str(tmp_path))


def test_day_without_a_file_is_empty(tree: Tree, tmp_path: Path) -> None:
    assert days.read_day(tree, "2026-11-25") == sums.Day("2026-11-25")
    assert days.read_day(Tree(str(tmp_path / "nowhere")), "2026-11-25") == sums.Day("2026-11-25")


def test_written_day_is_read_by_all_users(tree: Tree) -> None:
    day = sums.Day("2026-11-25", 15.0, {}, {("alice", "ssh", "GPU-1"): sums.Use(15.0, 7.5, 30.0, 800.0)})
    days.write_day(tree, day)
    assert days.read_day(tree, "2026-11-25") == day
    assert Path(tree.at(days.path_of("2026-11-25"))).stat().st_mode & 0o777 == 0o644


def test_fifo_and_large_file_are_refused(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tree.at(days.path_of("2026-11-24")))
    with pytest.raises(OSError, match="no regular file"):
        days.read_day(tree, "2026-11-24")
    monkeypatch.setattr(days.sums, "LIMIT", 10)
    Path(tree.at(days.path_of("2026-11-25"))).write_text("x" * 11)
    with pytest.raises(OSError, match="larger than 10"):
        days.read_day(tree, "2026-11-25")


def test_only_days_are_listed_and_removed(tree: Tree) -> None:
    home = Path(tree.at(days.HOME))
    for name in ("2026-11-23.json", "2026-11-24.json", "2026-11-25.json", "2026-11-22.damaged", "notes.json"):
        (home / name).write_text("{}")
    assert days.prune(tree, 2) == ["2026-11-23"]
    assert days.days(tree) == ["2026-11-24", "2026-11-25"]
    assert (home / "notes.json").exists() and (home / "2026-11-22.damaged").exists()
    assert days.prune(tree, 400) == []

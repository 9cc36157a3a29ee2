# SPDX-License-Identifier: GPL-3.0-or-later
"""How paths are read, and which sets are half changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_plan import MISSING, State
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_state import (
    open_sets,
    read_state,
)


def test_each_kind_of_path_is_read(tmp_path: Path) -> None:
    me = os.geteuid(), os.getegid()
    (tmp_path / "file").write_text("words")
    (tmp_path / "file").chmod(0o4640)
    (tmp_path / "folder").mkdir(0o700)
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "fifo", 0o600)
    assert read_state(str(tmp_path / "file")) == State("file", b"words", 0o4640, *me)
    assert read_state(str(tmp_path / "folder")) == State("directory", None, 0o700, *me)
    assert read_state(str(tmp_path / "link")).kind == "link"
    assert read_state(str(tmp_path / "fifo")) == State("other", None, 0o600, *me)
    assert read_state(str(tmp_path / "none")) == read_state(str(tmp_path / "file/none")) == MISSING


def test_a_link_that_replaces_a_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    found = (tmp_path / "file").lstat()
    (tmp_path / "link").symlink_to("file")
    monkeypatch.setattr(os, "lstat", lambda _path, **_options: found)
    with pytest.raises(OSError, match="no regular file"):
        read_state(str(tmp_path / "link"))


def test_sets_with_a_journal_are_open(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "b/journal.json").touch()
    assert open_sets(str(tmp_path)) == ["b"]
    assert open_sets(str(tmp_path / "none")) == []

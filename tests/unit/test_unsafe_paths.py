# SPDX-License-Identifier: GPL-3.0-or-later
"""The watch over root's paths notices what it is for, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file, sync_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import directory, read_file

from tests.unit.support.unsafe_paths import WATCH

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root alone is watched")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory in which all users may write."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "open/file").write_text("x")
    return tmp_path / "open"


def test_paths_below_a_directory_of_others_are_noticed(place: Path) -> None:
    replace_file(str(place / "new"), "x")
    sync_file(str(place / "file"))
    found = [line.split() for line in WATCH.found]
    WATCH.found.clear()
    assert {call[0].split(":")[0] for call in found} == {"atomic.py"}
    assert {call[1] for call in found} >= {"open", "os.rename"}


def test_descriptors_and_careful_reading_are_not(place: Path) -> None:
    with directory(str(place)) as handle:
        assert read_file("file", dir_fd=handle) == read_file(str(place / "file")) == b"x"
    assert WATCH.found == []


def test_directories_of_root_are_not(tmp_path: Path) -> None:
    replace_file(str(tmp_path / "file"), "x")
    assert WATCH.found == []

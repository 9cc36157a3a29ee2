# SPDX-License-Identifier: GPL-3.0-or-later
"""Directories that users other than root may write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.writable import open_to_others

STICKY = 0o1777
NOBODY = 65534


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory of root's, in another one."""
    (tmp_path / "above/place").mkdir(parents=True)
    return tmp_path / "above/place"


def test_path_that_only_root_may_write_is_safe(place):
    assert open_to_others(str(place)) == open_to_others(str(place / "new/er")) == []


@pytest.mark.parametrize("mode", [0o775, 0o757, STICKY])
@pytest.mark.parametrize("expected", ["above", "above/place"])
def test_directories_that_others_may_write_are_returned(tmp_path, place, mode, expected):
    (tmp_path / expected).chmod(mode)
    is_kept = mode == STICKY and expected == "above"
    assert open_to_others(str(place)) == ([] if is_kept else [str(tmp_path / expected)])


def test_a_sticky_directory_is_open_where_nothing_is_yet(place):
    place.chmod(STICKY)
    assert open_to_others(str(place / "new/er")) == [str(place)]


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory away")
def test_path_of_another_owner_is_open_to_others(place):
    os.chown(place, NOBODY, -1)
    assert open_to_others(str(place)) == [str(place)]
    place.parent.chmod(STICKY)
    assert open_to_others(str(place)) == [str(place.parent), str(place)]


def test_every_directory_behind_links_counts(tmp_path, place):
    (tmp_path / "open").mkdir(mode=0o700)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "open/back").symlink_to(place)
    (tmp_path / "link").symlink_to("open/../open/back")
    assert {os.path.realpath(path) for path in open_to_others(str(tmp_path / "link/new"))} == {str(tmp_path / "open")}


def test_links_that_lead_nowhere_or_to_themselves_come_to_an_end(tmp_path):
    (tmp_path / "nowhere").symlink_to("gone")
    (tmp_path / "loop").symlink_to("loop")
    assert open_to_others(str(tmp_path / "nowhere/a")) == open_to_others(str(tmp_path / "loop/a")) == []

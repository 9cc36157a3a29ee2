# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.root_directories import make_directories


@pytest.fixture(params=[0o022, 0o027, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(*paths: Path) -> list[int]:
    return [stat.S_IMODE(path.stat().st_mode) for path in paths]


@pytest.mark.usefixtures("umask")
def test_directories_have_their_mode_whatever_the_umask(tmp_path: Path) -> None:
    above = modes(tmp_path)
    make_directories(str(tmp_path / "a/b"))
    make_directories(f"{tmp_path}/c/d/", 0o750)
    assert modes(*(tmp_path / name for name in ("a", "a/b", "c", "c/d"))) == [0o755, 0o755, 0o750, 0o750]
    assert modes(tmp_path) == above


def test_directory_that_exists_keeps_its_mode_unless_named(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a").chmod(0o711)
    (tmp_path / "a/b").chmod(0o2700)
    make_directories(str(tmp_path / "a/b"))
    assert modes(tmp_path / "a", tmp_path / "a/b") == [0o711, 0o2700]
    make_directories(str(tmp_path / "a/b"), existing=True)
    assert modes(tmp_path / "a", tmp_path / "a/b") == [0o711, 0o755]
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_directories(str(tmp_path / "file"))

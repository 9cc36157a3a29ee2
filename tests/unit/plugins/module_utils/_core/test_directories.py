# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import (
    UnsafePath,
    directory,
    open_directory,
    open_file,
    read_file,
    write_file,
)


def test_open_directory_makes_missing_components(tmp_path: Path) -> None:
    with directory(str(tmp_path / "a/b"), make=True) as handle:
        assert os.path.samestat(os.fstat(handle), (tmp_path / "a/b").stat())


def test_open_directory_below_a_descriptor(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    with directory(str(tmp_path)) as top, directory("a/b", dir_fd=top) as handle:
        assert os.path.samestat(os.fstat(handle), (tmp_path / "a/b").stat())


@pytest.mark.parametrize("path", ["link", "link/below", "file", "file/below", "real/../real"])
def test_open_directory_refuses(tmp_path: Path, path: str) -> None:
    (tmp_path / "real/below").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "file").touch()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(UnsafePath):
        open_directory(f"{tmp_path}/{path}", make=True)
    assert len(os.listdir("/proc/self/fd")) == before


def test_open_directory_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_directory(str(tmp_path / "a"))


def odd_entries(place: Path) -> dict[str, Path]:
    """Return what another user can put where root expects a file."""
    target = place / "target"
    target.write_text("secret")
    found = {name: place / name for name in ("link", "fifo", "directory", "hard")}
    found["link"].symlink_to(target)
    os.mkfifo(found["fifo"])
    found["directory"].mkdir()
    os.link(target, found["hard"])
    return found


@pytest.mark.parametrize("kind", ["link", "fifo", "directory", "hard"])
def test_read_file_refuses(tmp_path: Path, kind: str) -> None:
    with pytest.raises(UnsafePath):
        read_file(str(odd_entries(tmp_path)[kind]))


@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_open_file_for_writing_refuses(tmp_path: Path, kind: str) -> None:
    with pytest.raises(UnsafePath):
        os.close(open_file(str(odd_entries(tmp_path)[kind]), os.O_WRONLY | os.O_CREAT))
    assert (tmp_path / "target").read_text() == "secret"


def test_read_file_of_an_unexpected_owner(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    assert read_file(str(path), {os.geteuid()}) == b"x"
    with pytest.raises(UnsafePath, match="belongs to uid"):
        read_file(str(path), {os.geteuid() + 1})


def test_read_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 11)
    assert read_file(str(path), limit=11) == b"x" * 11
    with pytest.raises(UnsafePath, match="larger than 10 bytes"):
        read_file(str(path), limit=10)


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "textfile").symlink_to("real")
    with pytest.raises(OSError, match="link"):
        write_file(str(tmp_path / "textfile/x.prom"), "")
    (tmp_path / "real/x.prom").symlink_to(tmp_path / "passwd")
    write_file(str(tmp_path / "real/x.prom"), "metrics")
    assert not (tmp_path / "passwd").exists()
    assert (tmp_path / "real/x.prom").read_text() == "metrics"

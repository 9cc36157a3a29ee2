# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import (
    clear_unfinished,
    replace_file,
    replace_link,
)


def names_in_folder(path: Path) -> list[str]:
    return sorted(os.listdir(path.parent))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


@pytest.mark.parametrize(
    ("content", "written"),
    [
        ("text\n", b"text\n"),
        (b"\xff\x00", b"\xff\x00"),
        ("fran\u00e7ais \udcff", "français ".encode() + b"\xff"),
        ("", b""),
    ],
)
def test_a_file_has_the_given_content(path: Path, content: str | bytes, written: bytes) -> None:
    replace_file(str(path), content)
    assert path.read_bytes() == written
    assert names_in_folder(path) == ["file"]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o666, 0o4755])
def test_a_mode_is_exact_whatever_the_umask(path: Path, mode: int) -> None:
    before = os.umask(0o077)
    try:
        replace_file(str(path), "", mode)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o7777 == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives files away")
def test_an_owner_and_the_bits_that_giving_away_clears(path: Path) -> None:
    replace_file(str(path), "", 0o6755, (1234, -1))
    found = path.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (1234, os.getegid(), 0o6755)


def test_reader_of_the_old_file_reads_it_to_its_end(path: Path) -> None:
    path.write_text("old\n")
    with path.open() as reader:
        replace_file(str(path), "new, and longer\n")
        assert reader.read() == "old\n"
    assert path.read_text() == "new, and longer\n"


def test_a_link_is_replaced_and_its_target_stays(path: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("other\n")
    path.symlink_to("other")
    replace_file(str(path), "new\n")
    assert not path.is_symlink() and (tmp_path / "other").read_text() == "other\n"


@pytest.mark.parametrize("call", ["fchmod", "fsync", "replace"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_when_it_fails_the_old_file_is_there_and_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: BaseException
) -> None:
    path.write_text("old\n")

    def fails(*_arguments: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fails)
        with pytest.raises(type(error)):
            replace_file(str(path), "new\n")
    assert path.read_text() == "old\n"
    assert names_in_folder(path) == ["file"]


def test_a_directory_that_is_not_there_is_not_made(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        replace_file(str(path / "file"), "")


def test_concurrent_writes_leave_one_complete_file(path: Path) -> None:
    texts = [letter * 100_000 for letter in "abcd"]

    def write(text: str) -> None:
        for _round in range(20):
            replace_file(str(path), text)

    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    contents = set()
    while any(thread.is_alive() for thread in threads):
        contents |= {path.read_text()} if path.exists() else set()
    assert contents | {path.read_text()} <= {*texts}
    assert names_in_folder(path) == ["file"]


@pytest.mark.parametrize("before", ["", "link", "file"])
def test_a_link_points_elsewhere(path: Path, before: str) -> None:
    if before == "link":
        path.symlink_to("old")
    elif before == "file":
        path.touch()
    replace_link(str(path), "new")
    assert path.readlink() == Path("new")
    assert names_in_folder(path) == ["file"]


def test_temporary_link_of_a_killed_run_is_replaced(path: Path) -> None:
    (path.parent / ".file.rigwright").symlink_to("nowhere")
    replace_link(str(path), "new")
    assert names_in_folder(path) == ["file"] and path.readlink() == Path("new")


def test_a_directory_is_no_link(path: Path) -> None:
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        replace_link(str(path), "new")
    assert path.is_dir() and names_in_folder(path) == ["file"]


def test_only_leftovers_of_killed_runs_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [".hidden", ".hidden.file", "file", "file.12345678"]
    for name in kept:
        (tmp_path / name).touch()
    with monkeypatch.context() as killed:
        killed.setattr(os, "replace", lambda *_names: None)
        replace_file(str(tmp_path / "state.json"), "half")
    assert len(os.listdir(tmp_path)) == 5
    clear_unfinished(str(tmp_path), "stateXjson")
    assert len(os.listdir(tmp_path)) == 5, "the name is no pattern"
    clear_unfinished(str(tmp_path), "state.json")
    assert sorted(os.listdir(tmp_path)) == kept
    with monkeypatch.context() as killed:
        killed.setattr(os, "replace", lambda *_names: None)
        replace_file(str(tmp_path / "state.json"), "half")
    clear_unfinished(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == kept
    clear_unfinished(str(tmp_path / "no such"))


def test_full_disk_is_named_by_its_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as error:
        replace_file(str(path), "text")
    assert (error.value.filename, names_in_folder(path)) == (str(path), [])

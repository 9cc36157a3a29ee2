# SPDX-License-Identifier: GPL-3.0-or-later
"""Drawing files, saying what they are, and what a restored one lacks. With the real restic: test__backup_job.py."""

from __future__ import annotations

import json
import os
import shutil
import struct
import time
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import sample as sampling
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.sample import Sampler


def line(path: Path, **changes: object) -> str:
    """Return a line of `restic ls --json` about a file."""
    found = path.lstat()
    whole, rest = divmod(found.st_ctime_ns, 10**9)
    ctime = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{rest:09d}Z"
    node = {"struct_type": "node", "path": str(path), "type": "file", "size": found.st_size, "ctime": ctime, **changes}
    return json.dumps(node, separators=(",", ":"))


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"file {number}" for number in range(30)]
    for path in paths:
        path.write_text(path.name)
    return paths


def test_so_many_are_drawn_and_named_ones_always(files: list[Path]) -> None:
    sampler = Sampler(5, [str(files[29])], seed=1)
    for path in files:
        sampler.take(line(path))
    drawn = sampler.files(1 << 20)
    assert len(drawn) == 6 and str(files[29]) in drawn
    assert sampler.total == 30


def test_files_changed_since_the_backup_are_not_drawn(files: list[Path]) -> None:
    sampler = Sampler(50)
    for path in files[:3]:
        sampler.take(line(path))
    sampler.take(line(files[3], ctime="2026-01-01T00:00:00Z"))
    sampler.take(line(files[4], size=999))
    gone = line(files[5])
    files[5].unlink()
    sampler.take(gone)
    assert set(sampler.files(1 << 20)) == {str(path) for path in files[:3]}


@pytest.mark.parametrize("way", ["a FIFO", "a link", "another file", "a link above it"])
def test_a_file_replaced_before_reading_counts_as_changed(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Replace the file: a FIFO would block the run forever, and a link have root read another file."""
    (tmp_path / "theirs").mkdir()
    path, secret = tmp_path / "theirs/file", tmp_path / "secret"
    for name in (path, secret / path.name):
        name.parent.mkdir(exist_ok=True)
        name.write_text(str(name))
    attributes = sampling._attributes

    def swapped(name: str) -> dict[str, str]:
        """Replace the file between its lstat and the reading of its content."""
        found = attributes(name)
        if name == str(path):
            path.rename(tmp_path / "away")
            if way == "a FIFO":
                os.mkfifo(path)
            elif way == "a link":
                path.symlink_to(secret / path.name)
            elif way == "another file":
                path.write_text("another")
            else:
                path.parent.rmdir()
                path.parent.symlink_to(secret)
        return found

    monkeypatch.setattr(sampling, "_attributes", swapped)
    sampler = Sampler(50)
    for name in (path, files[0]):
        sampler.take(line(name))
    before = path.lstat()
    assert set(sampler.files()) == {str(files[0])}
    with pytest.raises(OSError, match="Stale file handle|Too many levels"):
        sampling._digest(str(path), before)


def test_rare_files_come_first_and_the_limit_counts_bytes(files: list[Path], tmp_path: Path) -> None:
    os.setxattr(files[0], "user.x", b"1")
    os.link(files[1], tmp_path / "second")
    (tmp_path / "large").write_bytes(b"x" * 5000)
    sampler = Sampler(3)
    for path in [*files[2:], tmp_path / "large", files[0], files[1], tmp_path / "second"]:
        sampler.take(line(path))
    drawn = sampler.files(1000)
    assert list(drawn)[:2] == [str(files[0]), str(files[1])]
    assert drawn[str(files[1])]["links"] == [str(tmp_path / "second")]
    assert str(tmp_path / "large") not in drawn


def test_every_loss_of_a_restore_is_reported(files: list[Path], tmp_path: Path) -> None:
    first, second = files[0], files[1]
    os.setxattr(first, "security.capability", struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0))
    os.link(second, tmp_path / "also")
    wanted = {str(path): sampling.describe(str(path)) for path in files[:6]}
    wanted[str(second)]["links"] = [str(tmp_path / "also")]
    root = tmp_path / "root"
    restored = Path(f"{root}{tmp_path}")
    shutil.copytree(tmp_path, restored, symlinks=True, ignore=shutil.ignore_patterns("root"))
    for path in files:
        os.utime(restored / path.name, ns=(path.stat().st_mtime_ns,) * 2)
    os.removexattr(restored / first.name, "security.capability")
    (restored / files[2].name).write_text("other")
    os.utime(restored / files[2].name, ns=(files[2].stat().st_mtime_ns,) * 2)
    (restored / files[3].name).chmod(0o600)
    os.chown(restored / files[4].name, 5, 6)
    (restored / files[5].name).unlink()

    lost = sampling.compare(wanted, str(root))

    assert lost == [
        f"{first} has lost its capabilities",
        f"{second} and {tmp_path / 'also'} are no longer one file",
        f"{files[2]} has another content",
        f"{files[2]} has another size: 5, not 6",
        f"{files[3]} has another mode: 0600, not 0644",
        f"{files[4]} has another owner: 5, not 0",
        f"{files[4]} has another group: 6, not 0",
        f"{files[5]} is not there (No such file or directory)",
    ]


def test_of_large_files_alone_one_is_drawn_that_fits(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "LARGEST", 100)
    images = [tmp_path / f"image {size}" for size in (200, 300, 2000)]
    for image in images:
        image.write_bytes(b"x" * int(image.name.split()[1]))

    def drawn(*paths: Path) -> set[str]:
        sampler = Sampler(5)
        for path in paths:
            sampler.take(line(path))
        return set(sampler.files(1000))

    assert drawn(*images[::-1]) == {str(images[1])}
    assert drawn(images[0], files[0]) == {str(files[0])}
    assert drawn(images[2]) == set()


def test_a_directory_is_never_drawn(tmp_path: Path) -> None:
    sampler = Sampler(5, [str(tmp_path)])
    sampler.take(line(tmp_path, type="dir", size=0))
    assert (sampler.directories, sampler.met, sampler.files()) == ({str(tmp_path)}, set(), {})

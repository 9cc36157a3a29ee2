# SPDX-License-Identifier: GPL-3.0-or-later
"""A source that is corrupt or changes, and a disk that keeps other bytes, give no copy."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache import making

from tests.unit.support.storage import dataset_cache_processes as processes
from tests.unit.support.storage.dataset_cache_processes import MIB, MOUNTS, fell_back, refused, rewrite, tree

# Threads of pytest-xdist wait for messages, and hold no lock that a child could miss.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def sums_of(folder: Path) -> str:
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(folder.iterdir())
    )


def test_source_that_matches_its_checksums_is_copied(place, images):
    (images / "SHA256SUMS").write_text(sums_of(images))
    assert tree(place.get(images).path) == tree(images)


def test_source_that_does_not_match_its_checksums_is_refused(place, images):
    (images / "SHA256SUMS").write_text(sums_of(images))
    (images / "two").write_bytes(b"flipped")
    message = refused(place, images)
    assert message.startswith("4: ")
    assert "two is corrupt" in message


def test_source_that_lacks_a_file_of_its_checksums_is_refused(place, images):
    (images / "SHA256SUMS").write_text(sums_of(images))
    (images / "two").unlink()
    assert refused(place, images).startswith("4: ")


def test_invalid_list_of_checksums_is_refused(place, images):
    (images / "SHA256SUMS").write_text("<html>404</html>\n")
    assert refused(place, images).startswith("4: ")


def test_expected_checksum_of_a_file_is_compared(place):
    shard = place.data / "shard"
    shard.write_bytes(b"right")
    assert refused(place, shard, "--expect", "0" * 64).startswith("4: ")
    assert place.get(shard, "--expect", hashlib.sha256(b"right").hexdigest()).path.read_bytes() == b"right"


def test_list_from_elsewhere_is_compared(place, images):
    (place.top / "sums").write_text(f"{'0' * 64}  one\n")
    assert refused(place, images, "--sums", place.top / "sums").startswith("4: ")


@pytest.mark.parametrize("after", [0, MIB])
def test_read_error_in_the_source_is_no_copy(place, after):
    source = place.source("failing", good=b"1", bad=b"x" * 3 * MIB)
    message = refused(place, source, inject=processes.at_read(source / "bad", processes.fails(errno.EIO), after))
    assert message.startswith("4: ")
    assert "bad cannot be read" in message


@MOUNTS
@pytest.mark.skipif(
    not shutil.which("mkfs.ext4") or not Path("/dev/loop-control").exists(), reason="needs loop devices and mkfs.ext4"
)
def test_read_error_of_a_real_disk_is_no_copy(place):
    """Cut the end of a disk off: the kernel itself answers with EIO."""
    image, disk = place.top / "image", place.data / "disk"
    disk.mkdir()
    with image.open("wb") as file:
        file.truncate(16 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", image], check=True)
    mounted = subprocess.run(["mount", "-o", "loop", image, disk], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no loop device: {mounted.stderr!r}")
    try:
        (disk / "set").mkdir()
        (disk / "set/shard").write_bytes(os.urandom(8 * MIB))
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("1")
        with image.open("r+b") as file:
            file.truncate(6 * MIB)
        assert refused(place, disk / "set", "--share").startswith("4: ")
    finally:
        subprocess.run(["umount", disk], check=True)


CHANGES = {
    "a file becomes shorter": lambda folder: os.truncate(folder / "big", 10),
    "a file becomes longer": lambda folder: os.truncate(folder / "big", 9 * MIB),
    "a file is rewritten with its old time": lambda folder: rewrite(folder / "big"),
    "a file that was copied is rewritten": lambda folder: rewrite(folder / "first"),
    "a file is replaced": lambda folder: shutil.move(
        shutil.copy2(folder / "big", folder.parent / "other"), folder / "big"
    ),
    "a file is added": lambda folder: (folder / "late").write_bytes(b"1"),
    "a file is removed": lambda folder: (folder / "first").unlink(),
    "a folder is replaced by a link": lambda folder: [
        (folder / "sub").rename(folder.parent / "moved"),
        (folder / "sub").symlink_to("/etc"),
    ],
    "a link leads elsewhere": lambda folder: [(folder / "link").unlink(), (folder / "link").symlink_to("big")],
    "the source is renamed": lambda folder: folder.rename(folder.parent / "renamed"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_source_that_changes_while_it_is_copied_gives_no_copy(place, change):
    source = place.source("live", first=b"first" * 100, big=b"b" * 3 * MIB)
    (source / "sub").mkdir()
    (source / "sub/passwd").write_bytes(b"mine")
    (source / "link").symlink_to("first")
    inject = processes.at_read(source / "big", lambda: CHANGES[change](source), MIB)
    done = place.run("get", source, inject=inject)
    assert (done.rc, done.out) == (6, ""), done.err
    assert place.rows() == []
    assert place.leftovers() == []


def test_copy_with_wrong_bytes_on_disk_is_refused(place, images):
    fell_back(place, images, 7, processes.writes_wrong("data/images/two"))


def test_large_file_with_wrong_bytes_on_disk_is_refused(place):
    fell_back(place, place.source("large", file=b"x" * 9 * MIB), 7, processes.writes_wrong("data/large/file"))


def test_list_replaced_by_a_fifo_blocks_nobody(place, images):
    """The owner of a source can exchange its list after it was found: root waited for a writer for ever."""
    (images / "SHA256SUMS").write_text(sums_of(images))

    def inject():
        survey = making.take_survey

        def exchange(*arguments, **options):
            found = survey(*arguments, **options)
            (images / "SHA256SUMS").unlink()
            os.mkfifo(images / "SHA256SUMS")
            return found

        making.take_survey = exchange

    done = place.run("get", images, inject=inject)
    assert done.rc == 6 and "SHA256SUMS" in done.err

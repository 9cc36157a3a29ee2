# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies are made: whole, or not at all, whatever happens meanwhile."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.unit.support.storage import dataset_cache_processes as processes
from tests.unit.support.storage.dataset_cache_processes import CASES, MOUNTS, Calls, Place, fell_back, tree

# Threads of pytest-xdist wait for messages, and hold no lock that a child could miss.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_get_prints_the_path_of_a_copy_that_has_the_same_bytes(place, images):
    copy = place.get(images).path
    assert copy.name == "images"
    assert copy.is_relative_to(place.cache)
    assert tree(copy) == tree(images)


def test_source_may_be_a_file_and_keeps_its_name(place):
    shard = place.data / "train-000.tar"
    shard.write_bytes(b"shard" * 1000)
    copy = place.get(shard).path
    assert copy.name == "train-000.tar"
    assert copy.read_bytes() == shard.read_bytes()


def test_group_reads_the_copy_and_nobody_writes_it(place, images):
    copy = place.get(images).path
    assert {oct((copy / name).stat().st_mode & 0o777) for name in ("one", "two", "empty")} == {"0o440"}
    assert oct(copy.stat().st_mode & 0o777) == "0o550"


def test_changed_source_is_copied_next_to_the_old_copy(place, images):
    reader = place.read(images)
    old = Path(reader.read(0)[:-1])
    (images / "one").write_bytes(b"new")
    new = place.get(images).path
    assert new != old
    assert (new / "one").read_bytes() == b"new"
    assert (old / "one").read_bytes() == b"1" * 300_000
    assert [row["state"] for row in place.rows()] == ["whole", "superseded"]
    place.run("evict", "--need", "1")
    assert old.exists()
    reader.kill()
    place.run("evict")
    assert [row["state"] for row in place.rows()] == ["whole", "superseded"]
    place.configure(quota=place.rows("whole")[0]["size"] + 20_000)
    place.run("evict")
    assert not old.exists()
    assert tree(new) == tree(images)


def test_unused_old_copy_goes_once_the_new_one_is_whole(place, images):
    place.get(images)
    (images / "one").write_bytes(b"new")
    place.get(images)
    assert [row["state"] for row in place.rows()] == ["whole"]


@pytest.mark.parametrize("count", [0, 100_000, 400_000])
def test_disk_that_is_full_in_the_middle_leaves_nothing(place, images, count):
    fell_back(place, images, 5, processes.full_after(count))


def test_limit_of_file_sizes_in_the_middle_leaves_nothing(place, images):
    fell_back(place, images, 5, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)))


@MOUNTS
def test_small_disk_keeps_its_free_space(place, images):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "tmpfs", place.cache], check=True)
    try:
        big = place.source("big", file=os.urandom(900_000))
        place.configure(quota="10G", free="200K", mount=str(place.cache))
        assert place.get(big).rc == 5
        place.configure(quota="10G", mount=str(place.cache))
        # Others fill the disk meanwhile, so that it really says that it is full.
        fill = processes.at_read(big / "file", lambda: (place.cache / "other").write_bytes(b"x" * 500_000))
        done = place.run("get", big, inject=fill)
        assert (done.rc, done.out) == (5, "")
        assert "full" in done.err
        assert place.leftovers() == []
        (place.cache / "other").unlink()
        assert tree(place.get(images).path) == tree(images)
        # What was used longest ago makes room for the next.
        assert tree(place.get(big).path) == tree(big)
        assert place.cached() == {"big"}
    finally:
        subprocess.run(["umount", "-l", place.cache], check=True)
    done = place.get(images)
    assert done.rc == 10
    assert "nothing is mounted" in done.err


def check_after_kill(place: Place, source: Path, before: dict[bytes, object]) -> None:
    """Check that served bytes are right, that the next `get` completes and that nothing is left over."""
    wanted = tree(source)
    early = place.get(source, "--offline")
    assert early.rc in (0, 9), early.err
    if early.rc == 0:
        assert tree(early.path) in (wanted, before)
    assert tree(place.get(source).path) == wanted
    assert place.run("evict").rc == 0
    assert place.leftovers() == []
    assert place.run("verify").rc == 0


def test_killed_at_any_call_it_serves_the_right_bytes_or_none(place):
    """Kill it before each call that touches files, in a first copy, in a newer copy with an eviction and in a removal."""
    calls = Calls()
    source = place.source("set", a=b"a" * 3000, b=os.urandom(9000))
    (source / "link").symlink_to("a")
    other = place.source("other", file=b"o" * 50_000)
    place.configure(quota="110K")

    def first() -> dict[bytes, object]:
        place.clear()
        return tree(source)

    def newer() -> dict[bytes, object]:
        place.clear()
        before = tree(place.get(source).path)
        place.get(other)
        (source / "a").write_bytes(os.urandom(30_000))
        return before

    def removal() -> dict[bytes, object]:
        place.clear()
        return tree(place.get(source).path)

    for prepare, command in (
        (first, ("get", "--jobs", "1", source)),
        (newer, ("get", "--jobs", "1", source)),
        (removal, ("rm", source)),
        (removal, ("evict", "--need", "100K")),
    ):
        prepare()
        done = place.run(*command, inject=calls.kill_before(0))
        assert done.rc == 0, done.err
        total = calls.count
        points = random.sample(range(1, total + 1), min(total, max(5, CASES // 4)))
        for number in sorted(points):
            before = prepare()
            done = place.run(*command, inject=calls.kill_before(number))
            assert done.rc in (-signal.SIGKILL, 0), done.err
            check_after_kill(place, source, before)


def test_killed_at_any_time_it_serves_the_right_bytes_or_none(place):
    source = place.source("set", **{f"file{number}": os.urandom(number * 20_000) for number in range(20)})
    start = time.monotonic()
    place.get(source)
    whole = time.monotonic() - start
    for _case in range(max(5, CASES // 3)):
        place.clear()
        running = [place.start("get", source) for _number in range(2)]
        time.sleep(random.random() * whole * 1.2)  # noqa: S311
        for process in running:
            process.kill()
        check_after_kill(place, source, tree(source))

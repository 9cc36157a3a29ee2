# SPDX-License-Identifier: GPL-3.0-or-later
"""dataset-cache, as its users meet it: real processes on real folders."""

from __future__ import annotations

import errno
import grp
import hashlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.support.storage import dataset_cache_processes as processes
from tests.unit.support.storage.dataset_cache_processes import (
    CASES,
    MIB,
    PROGRAM,
    Calls,
    Place,
    await_that,
    program,
    tree,
)

# Threads of pytest-xdist wait for messages, and hold no lock that a child could miss.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
MOUNTS = pytest.mark.skipif(not processes.mounts(), reason="may not mount a file system")


@pytest.fixture
def place() -> Iterator[Place]:
    yield from processes.place()


@pytest.fixture
def images(place: Place) -> Path:
    return place.source("images", one=b"1" * 300_000, two=os.urandom(200_000), empty=b"")


# --- a whole copy ---


def test_get_prints_the_path_of_a_copy_that_has_the_same_bytes(place, images):
    copy = place.get(images).path
    assert copy.name == "images"
    assert copy.is_relative_to(place.cache)
    assert tree(copy) == tree(images)


def test_get_of_a_dataset_that_is_there_copies_nothing(place, images):
    first = place.get(images).path
    before = (first / "one").stat()
    second = place.run("get", images, fault=processes.at_read(images / "one", processes.fails(errno.EIO)))
    assert second.path == first
    assert (first / "one").stat() == before


def test_source_may_be_a_file_and_keeps_its_name(place):
    shard = place.data / "train-000.tar"
    shard.write_bytes(b"shard" * 1000)
    copy = place.get(shard).path
    assert copy.name == "train-000.tar"
    assert copy.read_bytes() == shard.read_bytes()


def test_what_is_odd_is_copied_as_it_is(place):
    odd = place.source("odd", plain=b"x")
    for name in (b"new\nline", b"not \xff\xfe UTF-8", b"-rf", b"record.json", b"\x1b[2J"):
        Path(os.fsdecode(os.fsencode(odd) + b"/" + name)).write_bytes(name)
    (odd / "deep/er/empty").mkdir(parents=True)
    (odd / "deep/link").symlink_to("../plain")
    (odd / "deep/dangling").symlink_to("nothing")
    (odd / "loop").symlink_to("loop")
    (odd / "tool").write_bytes(b"#!/bin/sh\n")
    (odd / "tool").chmod(0o755)
    assert tree(place.get(odd).path) == tree(odd)


def test_holes_stay_holes_and_hard_links_one_file(place):
    source = place.source("sparse", data=b"x" * MIB)
    with (source / "holes").open("wb") as file:
        file.seek(64 * MIB)
        file.write(b"end")
        file.truncate(200 * MIB)
    os.link(source / "data", source / "same")
    copy = place.get(source).path
    assert (
        hashlib.sha256((copy / "holes").read_bytes()).digest()
        == hashlib.sha256((source / "holes").read_bytes()).digest()
    )
    assert (copy / "holes").stat().st_blocks * 512 < 8 * MIB
    assert (copy / "data").samefile(copy / "same")
    assert place.rows()[0]["size"] < 8 * MIB


def test_absolute_link_inside_of_the_source_leads_to_the_copy(place, images):
    (images / "link").symlink_to(images / "one")
    copy = place.get(images).path
    assert (copy / "link").resolve() == copy / "one"


def test_group_reads_the_copy_and_nobody_writes_it(place, images):
    copy = place.get(images).path
    assert {oct((copy / name).stat().st_mode & 0o777) for name in ("one", "two", "empty")} == {"0o440"}
    assert oct(copy.stat().st_mode & 0o777) == "0o550"


def test_program_runs_as_it_is_installed(place, images):
    """By an interpreter of its own that ignores the user's environment, as the shebang of the role has it."""
    command = [sys.executable, "-I", PROGRAM, "--config", place.top / "configuration.json"]
    done = subprocess.run([*command, "run", images, "--", "sha256sum", "{}/one"], capture_output=True, check=True)
    assert done.stdout.split()[0].decode() == hashlib.sha256((images / "one").read_bytes()).hexdigest()
    helped = subprocess.run([*command, "--help"], capture_output=True, check=True, text=True).stdout
    for status in program.Exit:
        assert f"\n    {status.value:<5}" in helped


# --- what is refused ---


def refused(place: Place, source: Path, *options: object, fault: processes.Fault | None = None) -> str:
    """What `get` says; nothing is left of the attempt, and --or-source would not help."""
    done = place.run("get", "--or-source", source, *options, fault=fault)
    assert done.out == ""
    assert place.rows() == []
    assert place.leftovers() == []
    return f"{done.rc}: {done.err}"


def test_source_outside_of_the_allowed_folders_is_refused(place):
    assert refused(place, place.top).startswith("3: ")
    (place.data / "out").symlink_to("/etc")
    assert "(`sources`)" in refused(place, place.data / "out")


def test_link_out_of_the_source_is_refused(place, images):
    (images / "passwords").symlink_to("/etc/passwd")
    said = refused(place, images)
    assert said.startswith("3: ")
    assert "link out of the source" in said


def test_link_out_of_the_source_by_way_of_another_is_refused(place, images):
    (images / "up").symlink_to("..")
    assert refused(place, images).startswith("3: ")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.mknod(path, 0o140600)], ids=["pipe", "socket"])
def test_what_is_no_file_is_refused(place, images, make):
    make(images / "odd")
    assert "take it out" in refused(place, images)


def test_missing_source_is_refused_but_its_copy_can_be_had(place, images):
    assert refused(place, place.data / "nothing").startswith("3: ")
    copy = place.get(images).path
    images.rename(place.data / "away")
    done = place.get(images)
    assert (done.rc, done.out) == (3, "")
    assert "--offline" in done.err
    assert place.get(images, "--offline").path == copy


def test_private_files_are_not_shown_to_the_group_unless_asked(place, images):
    place.configure(group=grp.getgrgid(os.getgid()).gr_name)
    os.chmod(images / "one", 0o600)
    said = refused(place, images)
    assert said.startswith("3: ")
    assert "--share" in said
    assert tree(place.get(images, "--share").path) == tree(images)


# --- a corrupt source ---


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
    said = refused(place, images)
    assert said.startswith("4: ")
    assert "two is corrupt" in said


def test_source_that_lacks_a_file_of_its_checksums_is_refused(place, images):
    (images / "SHA256SUMS").write_text(sums_of(images))
    (images / "two").unlink()
    assert refused(place, images).startswith("4: ")


def test_list_of_checksums_that_is_none_is_refused(place, images):
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
    said = refused(place, source, fault=processes.at_read(source / "bad", processes.fails(errno.EIO), after))
    assert said.startswith("4: ")
    assert "bad cannot be read" in said


@MOUNTS
@pytest.mark.skipif(
    not shutil.which("mkfs.ext4") or not Path("/dev/loop-control").exists(), reason="needs loop devices and mkfs.ext4"
)
def test_read_error_of_a_real_disk_is_no_copy(place):
    """A disk of which the end is gone: the kernel itself answers with EIO."""
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


# --- a source that changes ---


def rewrite(path: Path) -> None:
    """Other bytes, of the same number, and the time of change set back."""
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"changed")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


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
    fault = processes.at_read(source / "big", lambda: CHANGES[change](source), MIB)
    done = place.run("get", source, fault=fault)
    assert (done.rc, done.out) == (6, ""), done.err
    assert place.rows() == []
    assert place.leftovers() == []


def test_source_that_changed_later_is_copied_anew_beside_the_old_copy(place, images):
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


def test_old_copy_that_nobody_reads_goes_when_the_new_one_is_there(place, images):
    place.get(images)
    (images / "one").write_bytes(b"new")
    place.get(images)
    assert [row["state"] for row in place.rows()] == ["whole"]


def test_source_of_this_very_moment_is_looked_at_again(place, monkeypatch):
    """A change within the tick of the kernel's clock would leave the same times behind."""
    source = place.source("quick", file=b"a")
    now = (source / "file").stat().st_ctime_ns + 1_000_000
    moments = iter([now, now + 10**10])
    monkeypatch.setattr(program.time, "time_ns", lambda: next(moments))
    monkeypatch.setattr(program.time, "sleep", lambda seconds: (source / "file").write_bytes(b"later"))
    assert [entry.size for entry in program.look(str(source), keep=True).entries] == [0, 5]


def test_every_version_of_a_source_that_changes_fast_is_got(place):
    source = place.source("quick", file=b"a")
    place.get(source)
    for content in (b"b", b"c", b"d"):
        (source / "file").write_bytes(content)
        assert (place.get(source).path / "file").read_bytes() == content


def test_source_that_is_written_all_the_time_is_told_of(place):
    source = place.source("log", file=b"a")
    writer = subprocess.Popen([sys.executable, "-c", f"while True: open({str(source / 'file')!r}, 'a').write('x')"])
    try:
        time.sleep(0.2)
        done = place.get(source)
    finally:
        writer.kill()
        writer.wait()
    assert (done.rc, done.out) == (6, "")


# --- a cache that fails ---


def fell_back(place: Place, source: Path, rc: int, fault: processes.Fault) -> None:
    done = place.run("get", source, fault=fault)
    assert (done.rc, done.out) == (rc, ""), done.err
    assert place.leftovers() == []
    assert place.rows() == []
    done = place.run("get", "--or-source", source, fault=fault)
    assert done.path == source
    assert "the source itself is used" in done.err
    assert place.leftovers() == []


@pytest.mark.parametrize("count", [0, 100_000, 400_000])
def test_disk_that_is_full_in_the_middle_leaves_nothing(place, images, count):
    fell_back(place, images, 5, processes.full_after(count))


def test_limit_of_file_sizes_in_the_middle_leaves_nothing(place, images):
    fell_back(place, images, 5, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)))


def test_copy_that_is_read_back_otherwise_is_none(place, images):
    fell_back(place, images, 7, processes.writes_wrong("data/images/two"))


def test_large_file_that_is_read_back_otherwise_is_none(place):
    fell_back(place, place.source("large", file=b"x" * 9 * MIB), 7, processes.writes_wrong("data/large/file"))


@MOUNTS
def test_small_disk_keeps_its_floor_of_free_space_and_is_never_filled(place, images):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "tmpfs", place.cache], check=True)
    try:
        big = place.source("big", file=os.urandom(900_000))
        place.configure(quota="10G", free="200K", mount=str(place.cache))
        assert place.get(big).rc == 5
        place.configure(quota="10G", mount=str(place.cache))
        # Others fill the disk meanwhile, so that it really says that it is full.
        fill = processes.at_read(big / "file", lambda: (place.cache / "other").write_bytes(b"x" * 500_000))
        done = place.run("get", big, fault=fill)
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


def test_copy_is_served_from_a_disk_that_is_full(place, images):
    copy = place.get(images).path

    def full() -> None:
        processes.full_after(0)()
        real = os.open

        def no_new_file(path: str, flags: int, *rest: int, **options: int) -> int:
            if flags & os.O_CREAT and "dir_fd" in options and processes.name_of(options["dir_fd"]).endswith("leases"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(path, flags, *rest, **options)

        os.open = no_new_file  # type: ignore[assignment]

    done = place.run("get", images, fault=full)
    assert done.path == copy
    assert "may be evicted" in done.err


def test_copy_that_this_process_cannot_look_at_is_not_condemned(place, images):
    copy = place.get(images).path

    def fault() -> None:
        program.walk = lambda top: processes.fails(errno.EMFILE)() if top.startswith("/proc/") else iter(())
        program.look = lambda top, keep: program.Seen(place_fingerprint, [])

    place_fingerprint = program.look(str(images), False).fingerprint
    assert place.run("get", images, fault=fault).rc == 10
    assert place.get(images).path == copy


def test_cache_that_is_missing_gives_the_source_only_when_asked(place, images):
    place.configure(cache=str(place.top / "nothing"))
    assert place.get(images).rc == 10
    assert place.get(images, "--or-source").path == images


def test_damaged_copy_is_not_served_but_made_again(place, images):
    for damage in (
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b"short"),
        lambda path: path.parent.joinpath("more").write_bytes(b""),
    ):
        copy = place.get(images).path
        for path in (copy, copy / "one"):
            path.chmod(0o700)
        damage(copy / "one")
        again = place.get(images)
        assert again.path != copy
        assert tree(again.path) == tree(images)
        assert not copy.exists()


def test_verify_finds_a_byte_that_changed_and_it_is_never_served_again(place, images):
    copy = place.get(images).path
    assert place.run("verify").rc == 0
    (copy / "two").chmod(0o600)
    rewrite(copy / "two")
    (copy / "two").chmod(0o440)
    done = place.run("verify", images)
    assert done.rc == 7
    assert "two is not what was copied" in done.err
    assert place.rows()[0]["state"] == "damaged"
    assert place.run("get", "--offline", images).rc == 9
    assert tree(place.get(images).path) == tree(images)
    assert place.run("verify").rc == 0


def test_verify_with_the_source_finds_what_its_times_hide(place, images):
    place.get(images)
    rewrite(images / "two")
    assert place.run("verify", images).rc == 0
    assert place.run("verify", "--source", images).rc == 7
    assert (place.get(images).path / "two").read_bytes() == (images / "two").read_bytes()


def test_record_that_is_not_whole_is_no_copy(place, images):
    record = place.get(images).path.parents[1] / "record.json"
    for text in (
        "",
        "{",
        record.read_text()[:-40],
        record.read_text().replace('"whole": true', '"whole": false'),
        "[]",
    ):
        record = place.get(images).path.parents[1] / "record.json"
        record.parent.chmod(0o700)
        record.chmod(0o600)
        record.write_text(text)
        assert place.run("get", "--offline", images).rc == 9
    assert tree(place.get(images).path) == tree(images)


# --- several processes ---


def test_writers_at_once_make_one_copy(place, images):
    (images / "large").write_bytes(os.urandom(20 * MIB))
    running = [place.start("get", images) for _number in range(5)]
    paths = {one.wait().path for one in running}
    assert len(paths) == 1
    assert tree(paths.pop()) == tree(images)
    assert len(place.rows()) == 1


def test_who_waits_takes_over_from_a_maker_that_is_killed(place, images):
    pause = processes.at_read(images / "one", lambda: time.sleep(600))
    maker = place.start("get", images, fault=pause)
    await_that(lambda: place.rows("making"))
    assert place.run("get", "--wait", "0.2", images).rc == 11
    waiter = place.start("get", images)
    await_that(lambda: "waiting" in waiter.read(1))
    maker.kill()
    assert tree(waiter.wait().path) == tree(images)
    assert place.leftovers() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_ends_it_and_takes_away_what_was_half_made(place, images, number, tmp_path):
    # It ends when those who read for it have come to an end: they go on once the signal is on its way.
    go = tmp_path / "go"
    maker = place.start("get", images, fault=processes.at_read(images / "one", lambda: await_that(go.exists, 600)))
    await_that(lambda: place.rows("making"))
    maker.send(number)
    go.touch()
    assert maker.wait().rc == 128 + number
    assert place.leftovers() == []
    assert place.rows() == []


def check_after_kill(place: Place, source: Path, before: dict[bytes, object]) -> None:
    """Whatever is served is right; the next `get` completes; nothing lies about."""
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
    """Before each call by which a first copy, a newer copy with an eviction, and a removal touch files."""
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
        done = place.run(*command, fault=calls.kill_before(0))
        assert done.rc == 0, done.err
        total = calls.count
        points = random.sample(range(1, total + 1), min(total, max(5, CASES // 4)))
        for number in sorted(points):
            before = prepare()
            done = place.run(*command, fault=calls.kill_before(number))
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
        for one in running:
            one.kill()
        check_after_kill(place, source, tree(source))


# --- room ---


@pytest.fixture
def four(place: Place) -> list[Path]:
    """Four datasets, of which three fit."""
    place.configure(quota="1M")
    return [place.source(name, file=os.urandom(300_000)) for name in "abcd"]


def test_what_was_used_longest_ago_goes_first(place, four):
    a, b, c, d = four
    for source in (a, b, c, a, d):
        assert place.get(source).rc == 0
    assert place.cached() == {"a", "c", "d"}


def test_time_of_day_that_jumps_changes_no_order(place, four):
    a, b, c, d = four
    for source, offset in ((a, 0), (b, 1e8), (c, -1e8), (a, -2e8)):
        done = place.run("get", "--pid", processes.dead_soon(), source, fault=processes.clock_is(offset))
        assert done.rc == 0
    place.get(d)
    assert place.cached() == {"a", "c", "d"}


def test_pinned_dataset_stays_until_it_is_unpinned(place, four):
    a, b, _c, _d = four
    assert place.run("pin", a).rc == 0
    assert place.rows()[0]["state"] == "absent"
    for source in four:
        assert place.get(source).rc == 0
    assert place.cached() == {"a", "c", "d"}
    assert place.run("rm", a).rc == 8
    assert place.run("unpin", a).rc == 0
    assert place.run("unpin", a).rc == 9
    assert place.get(b).rc == 0
    assert place.cached() == {"b", "c", "d"}


def test_dataset_that_a_command_uses_stays(place, four):
    a, b, c, d = four
    reader = place.read(a)
    for source in (b, c, d):
        assert place.get(source).rc == 0
    assert place.cached() == {"a", "c", "d"}
    assert place.run("rm", a).rc == 8
    row = next(row for row in place.rows() if row["source"] == str(a))
    assert row["in_use_by"] == [f"{reader.pid} (sleep)"]
    reader.kill()
    assert place.run("rm", a).rc == 0


def test_children_of_a_command_keep_the_dataset_when_it_has_ended(place, images):
    pid_file = place.top / "pid"
    done = place.run("run", images, "--", "sh", "-c", f"sleep 600 >/dev/null 2>&1 & echo $! > {pid_file}")
    assert done.rc == 0
    assert place.run("rm", images).rc == 8
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    await_that(lambda: place.run("rm", images).rc == 0)


def test_dataset_that_was_got_stays_as_long_as_the_caller_runs(place, four):
    a, b, c, d = four
    caller = subprocess.Popen(["sleep", "600"])
    place.run("get", "--pid", caller.pid, a)
    for source in (b, c, d):
        assert place.get(source).rc == 0
    assert place.cached() == {"a", "c", "d"}
    caller.kill()
    caller.wait()
    assert place.get(b).rc == 0
    assert place.cached() == {"b", "c", "d"}


def test_caller_is_the_process_that_asked(place, images):
    command = f"{sys.executable} -I {PROGRAM} --config {place.top}/configuration.json"
    script = f"DATA=$({command} get {images}); {command} rm {images}; echo $?; test -e $DATA/one && echo there"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["8", "there"]
    assert place.run("rm", images).rc == 0


def test_released_dataset_may_go(place, images):
    place.run("get", images)
    assert place.run("rm", images).rc == 8
    assert place.run("release", images).rc == 0
    assert place.run("rm", images).rc == 0


def test_lease_of_another_process_with_the_same_number_counts_no_more(place, images):
    place.run("get", images)
    (lease,) = place.cache.glob("sets/*/leases/*")
    copy, pid, started, *rest = lease.name.split("@")
    lease.rename(lease.with_name("@".join([copy, pid, str(int(started) - 1), *rest])))
    assert place.run("rm", images).rc == 0


@pytest.mark.parametrize(("age", "rc"), [(3600, 8), (25 * 3600, 0), (-3600, 0)])
def test_lease_from_another_pid_namespace_counts_for_a_time_since_boot(place, images, age, rc):
    place.run("get", images)
    (lease,) = place.cache.glob("sets/*/leases/*")
    copy, pid, started, _namespace, boot, since = lease.name.split("@")
    lease.rename(lease.with_name("@".join([copy, pid, started, "1", boot, str(max(0, int(since) + 10**6))])))

    def fault() -> None:
        real = time.clock_gettime
        time.clock_gettime = lambda clock: real(clock) + 10**6 + age

    assert place.run("rm", images, fault=fault).rc == rc


def test_what_is_larger_than_the_quota_evicts_nothing(place, four):
    a, b, _c, _d = four
    for source in (a, b):
        place.get(source)
    huge = place.source("huge", file=b"x" * 2_000_000)
    done = place.get(huge)
    assert done.rc == 5
    assert "quota" in done.err
    assert place.cached() == {"a", "b"}


def test_what_cannot_fit_beside_what_stays_evicts_nothing(place, four):
    a, b, _c, _d = four
    place.run("pin", a)
    for source in (a, b):
        place.get(source)
    assert place.get(place.source("large", file=b"x" * 800_000)).rc == 5
    assert place.cached() == {"a", "b"}


def test_copies_that_are_being_made_count(place, four):
    a, b, c, d = four
    held = [
        place.start("get", source, fault=processes.at_read(source / "file", lambda: time.sleep(600)))
        for source in (a, b, c)
    ]
    await_that(lambda: len(place.rows("making")) == 3)
    assert place.get(d).rc == 5
    for one in held:
        one.kill()
    assert {row["state"] for row in place.rows()} == {"interrupted"}
    assert place.get(d).rc == 0
    assert place.cached() == {"d"}


def test_dry_run_tells_what_the_next_run_does(place, four):
    a, b, c, _d = four
    for source in (a, b, c):
        place.get(source)
    told = place.run("evict", "--need", "500K", "--dry-run")
    assert place.cached() == {"a", "b", "c"}
    done = place.run("evict", "--need", "500K")
    assert done.out == told.out.replace("would evict", "evicted")
    assert place.cached() == {"c"}


# --- words ---


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_configuration_that_others_can_change_is_not_believed_by_root(place, images):
    (place.top / "configuration.json").chmod(0o666)
    done = place.get(images)
    assert done.rc == 2
    assert "chown root" in done.err


def test_run_is_the_command(place, images):
    def outer() -> None:
        os.umask(0o027)

    done = place.run("run", images, "--", "sh", "-c", 'echo "$DATASET_CACHE_PATH" "$(umask)" {}; exit 3', fault=outer)
    copy = place.get(images).path
    assert (done.rc, done.out) == (3, f"{copy} 0027 {copy}\n")
    assert place.run("run", "--env", "TRAIN", images, "--", "sh", "-c", 'test "$TRAIN" = {}').rc == 0
    assert place.run("run", images, "--", "no-such-command").rc == 127
    assert place.run("run", images, "--", "/etc/passwd").rc == 126
    assert place.run("run", images).rc == 2
    # A program that writes into a closed pipe has to end by it, as anywhere else.
    assert place.run("run", images, "--", "sh", "-c", "yes | head -1; kill -PIPE $$").rc == -signal.SIGPIPE


def test_names_from_a_source_do_not_reach_the_terminal_raw(place):
    evil = place.data / "evil\x1b]0;title\x07\n"
    evil.mkdir()
    place.get(evil)
    shown = place.run("status").out
    assert "\x1b" not in shown
    assert "evil\\x1b]0;title" in shown
    assert len(shown.splitlines()) == 3


def test_status_tells_what_there_is(place, images):
    copy = place.get(images).path
    (row,) = place.rows()
    assert {key: row[key] for key in ("source", "path", "state", "pinned", "in_use_by", "files")} == {
        "source": str(images),
        "path": str(copy),
        "state": "whole",
        "pinned": False,
        "in_use_by": [],
        "files": 3,
    }
    assert abs(row["last_used"] - time.time()) < 60
    assert row["size"] == place.status()["used"]
    (images / "one").write_bytes(b"new")
    assert "stale" in place.run("status", "--check").out
    shutil.rmtree(images)
    assert "sourceless" in place.run("status", "--check").out
    assert place.run("status", place.data / "nothing").rc == 9


def test_dataset_can_be_named_as_status_names_it(place, images):
    place.get(images)
    name = place.rows()[0]["name"]
    shutil.rmtree(images)
    assert place.run("rm", name).rc == 0
    assert place.rows() == []


def test_progress_is_a_bar_on_a_terminal_and_nothing_when_quiet(place):
    source = place.source("large", file=b"x" * MIB)

    def terminal() -> None:
        sys.stderr.isatty = lambda: True  # type: ignore[method-assign]
        processes.at_read(source / "file", lambda: time.sleep(0.4))()

    assert "\rESC[Kcopying large".replace("ESC", "\x1b") in place.run("get", source, fault=terminal).err
    place.clear()
    assert place.run("get", "--quiet", source, fault=terminal).err == ""


# --- pure parts ---


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("800G", 800 << 30),
        ("800GiB", 800 << 30),
        ("800GB", 800 * 10**9),
        ("1.5 k", 1536),
        (7, 7),
        ("0", 0),
        ("50%", 500),
        ("10B", 10),
    ],
)
def test_size_is_read(text, size):
    assert program.read_size(text, 1000) == size


@pytest.mark.parametrize("text", ["", "G", "-1", "1e9", "101%", "1 000", "12X", True, "\u0661"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="not a size"):
        program.read_size(text)


def test_sums_are_read_as_sha256sum_writes_them():
    one, two = "1" * 64, "a" * 64
    text = f"{one}  ./plain\n{two.upper()} *binary\r\n\\{one}  new\\nline\\\\\n# words\n\nSHA256 (tag (ged)) = {two}\n"
    assert program.read_sums(text.encode()) == {"plain": one, "binary": two, "new\nline\\": one, "tag (ged)": two}


@pytest.mark.parametrize(
    "line", ["1" * 63 + "  x", "1" * 64 + "  ../x", "1" * 64 + "  /x", "words", f"{'1' * 64}  x\n{'2' * 64}  x"]
)
def test_what_is_no_list_of_sums_is_refused(line):
    with pytest.raises(ValueError, match="no line|outside|two sums"):
        program.read_sums(line.encode())


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "lacks `cache`"),
        ({"cache": 1}, "lacks `cache`"),
        ({"cache": "/c", "quotas": 1}, "unknown key: quotas"),
        ({"cache": "c"}, "not an absolute path"),
        ({"cache": "/c", "mount": "c"}, "not an absolute path"),
        ({"cache": "/c", "sources": "/data"}, "wrong kind"),
        ({"cache": "/c", "sources": ["data"]}, "not a list of absolute paths"),
        ({"cache": "/c", "quota": "much"}, "`quota` is not a size"),
        ({"cache": "/c", "free": -1}, "`free` is not a size"),
        ({"cache": "/c", "quota": True}, "wrong kind"),
        ({"cache": "/c", "hash": "none"}, "none of full, once"),
        ({"cache": "/c", "algorithm": "md5"}, "none of auto"),
        ({"cache": "/c", "file_mode": "0640"}, "lets copies be written"),
        ({"cache": "/c", "file_mode": "rw"}, "not a mode"),
        ({"cache": "/c", "directory_mode": "0777"}, "lets everybody write"),
        ({"cache": "/c", "directory_mode": "0770"}, "lets copies be changed"),
        ({"cache": "/c", "directory_mode": "0440"}, "lets nobody enter"),
        ({"cache": "/c", "jobs": -1}, "not below 0"),
        ({"cache": "/c", "evict_service": "yes"}, "wrong kind"),
    ],
)
def test_wrong_configuration_is_refused_by_name(values, words):
    with pytest.raises(ValueError, match=words):
        program.check_settings(values)


def test_group_that_is_not_there_is_named(place, images):
    place.configure(group="no-such-group")
    assert place.get(images).rc == 2

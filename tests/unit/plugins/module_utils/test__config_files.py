# SPDX-License-Identifier: GPL-3.0-or-later
"""Planning and carrying out a set of files: whatever happens, the old state or the new one, never something between."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils import _config_files
from ansible_collections.rigwright.workstation.plugins.module_utils._config_files import (
    MISSING,
    Record,
    Refused,
    State,
    Store,
    Transaction,
    Wanted,
    plan,
    read_state,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ME = (os.getuid(), os.getgid())


def file(text: str, mode: int = 0o644) -> State:
    return State("file", text.encode(), mode, *ME)


def directory(mode: int = 0o755) -> State:
    return State("directory", None, mode, *ME)


OLD, NEW = file("old\n"), file("new\n")
LINK, DEVICE = State("link"), State("other")


@pytest.mark.parametrize(
    ("wanted", "before", "after"),
    [
        pytest.param(NEW, MISSING, NEW, id="made"),
        pytest.param(NEW, OLD, NEW, id="replaced"),
        pytest.param(NEW, NEW, None, id="unchanged"),
        pytest.param(file("new\n", 0o600), NEW, file("new\n", 0o600), id="mode"),
        pytest.param(MISSING, OLD, MISSING, id="moved away"),
        pytest.param(MISSING, MISSING, None, id="already away"),
        pytest.param(directory(), MISSING, directory(), id="directory made"),
    ],
)
def test_a_step_leads_from_what_is_there_to_what_is_wanted(wanted, before, after):
    steps = plan([Wanted("/x", wanted)], {"/x": before}, {})
    assert [(step.before, step.after) for step in steps] == ([] if after is None else [(before, after)])


@pytest.mark.parametrize(
    ("wanted", "before", "reason"),
    [
        (NEW, LINK, "symbolic link"),
        (directory(), LINK, "symbolic link"),
        (MISSING, LINK, "symbolic link"),
        (NEW, directory(), "is a directory"),
        (MISSING, directory(), "is a directory"),
        (directory(), OLD, "is a file"),
        (NEW, DEVICE, "is a other"),
    ],
)
def test_what_is_in_the_way_is_refused(wanted, before, reason):
    with pytest.raises(Refused, match=reason):
        plan([Wanted("/x", wanted)], {"/x": before}, {})


def test_all_obstacles_are_named_at_once():
    with pytest.raises(Refused, match="/x is .*/y is "):
        plan([Wanted("/x", NEW), Wanted("/y", NEW)], {"/x": LINK, "/y": LINK}, {})


def test_a_file_that_is_no_longer_listed_is_given_back():
    records = {"/x": Record(OLD, 5, NEW.digest)}
    (step,) = plan([], {"/x": NEW}, records)
    assert (step.after, step.mtime_ns, step.edited) == (OLD, 5, False)


def test_a_file_that_a_person_edited_is_marked_before_it_is_given_back():
    (step,) = plan([], {"/x": file("by hand\n")}, {"/x": Record(OLD, 5, NEW.digest)})
    assert step.edited


def test_directories_are_made_first_and_removed_last():
    current = dict.fromkeys(["/a", "/a/b", "/a/b/f"], MISSING)
    wanted = [Wanted("/a/b/f", NEW), Wanted("/a/b", directory()), Wanted("/a", directory())]
    assert [step.path for step in plan(wanted, current, {})] == ["/a", "/a/b", "/a/b/f"]
    records = {path: Record(MISSING) for path in current}
    there = {"/a": directory(), "/a/b": directory(), "/a/b/f": NEW}
    assert [step.path for step in plan([], there, records)] == ["/a/b/f", "/a/b", "/a"]


# --- Carrying a plan out, on a real file system ---


def snapshot(root: Path) -> dict[str, tuple]:
    """All that a restored tree must have again: kind, mode, owner, time and content of everything in it."""

    def entry(path: Path) -> tuple:
        found = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(found.st_mode) else None
        time = found.st_mtime_ns if content is not None else None
        return (found.st_mode, found.st_uid, found.st_gid, time, content)

    return {str(path): entry(path) for path in sorted(root.rglob("*"))}


class Host:
    """A tree under a temporary directory, and a store beside it."""

    def __init__(self, tmp: Path) -> None:
        self.root = tmp / "etc"
        self.root.mkdir()
        self.store = Store("test", str(tmp / "lib/rigwright/config_files"))

    def path(self, name: str) -> str:
        return str(self.root / name)

    def write(self, name: str, text: str, mode: int = 0o644) -> None:
        Path(self.path(name)).write_text(text)
        os.chmod(self.path(name), mode)
        os.utime(self.path(name), ns=(10**18, 10**18))

    def begin(self, wanted: dict[str, State]) -> tuple[Transaction, list[Wanted]]:
        asked = [Wanted(self.path(name), state) for name, state in wanted.items()]
        records = self.store.load()
        current = {path: read_state(path) for path in {*(item.path for item in asked), *records}}
        return Transaction(self.store, plan(asked, current, records), records), asked

    def apply(self, wanted: dict[str, State]) -> Transaction:
        transaction, asked = self.begin(wanted)
        transaction.stage()
        transaction.commit()
        transaction.finish(asked)
        return transaction


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


FIVE = {"d": directory(0o750), "d/1": file("one\n"), "2": file("two\n", 0o600), "3": MISSING, "4": file("four\n")}


@pytest.fixture
def lived_in(host):
    """A host where two of the five files exist already, one of them to be moved away."""
    host.write("2", "second\n", 0o640)
    host.write("3", "third\n", 0o604)
    return host


def test_a_set_is_put_in_place_and_given_back_byte_for_byte(lived_in):
    before = snapshot(lived_in.root)
    lived_in.apply(FIVE)
    assert {name: read_state(lived_in.path(name)) for name in FIVE} == FIVE
    lived_in.apply({})
    assert snapshot(lived_in.root) == before
    assert not os.path.exists(lived_in.store.path)


def test_a_second_run_has_nothing_to_do(lived_in):
    lived_in.apply(FIVE)
    transaction, _asked = lived_in.begin(FIVE)
    assert transaction.steps == []


def test_the_first_original_is_the_one_that_comes_back(lived_in):
    before = snapshot(lived_in.root)
    for text in ("a\n", "b\n", "c\n"):
        lived_in.apply({"2": file(text)})
    lived_in.apply({})
    assert snapshot(lived_in.root) == before


def test_a_directory_with_something_else_in_it_stays(lived_in):
    lived_in.apply(FIVE)
    lived_in.write("d/someone_else", "keep\n")
    lived_in.apply({})
    assert os.listdir(lived_in.path("d")) == ["someone_else"]


def test_what_a_person_edited_is_kept_beside(lived_in):
    lived_in.apply(FIVE)
    lived_in.write("4", "by hand\n")
    (kept,) = lived_in.apply({}).edited
    assert Path(kept).read_text() == "by hand\n"


def test_a_path_of_another_set_is_known(host):
    host.apply({"4": NEW})
    assert Store("other", host.store.root).owner_of([host.path("4"), host.path("5")]) == {host.path("4"): "test"}


class Crash(BaseException):
    """Power cut: nothing that would tidy up gets to run."""


CALLS = ["rename", "link", "unlink", "mkdir", "chown", "chmod", "fsync", "open", "makedirs", "rmdir", "utime"]


def breaking_at(monkeypatch, number: int, error: BaseException) -> list[str]:
    """Let the ``number``-th call that changes the disk fail; returns the calls seen."""
    seen: list[str] = []

    def wrap(name):
        real = getattr(os, name)

        def call(*args, **kwargs):
            seen.append(name)
            if len(seen) == number:
                raise error
            return real(*args, **kwargs)

        return call

    for name in CALLS:
        monkeypatch.setattr(_config_files.os, name, wrap(name))
    return seen


@pytest.mark.parametrize("first", [{}, FIVE], ids=["putting in place", "giving back"])
def test_a_full_disk_at_any_point_leaves_everything_as_it_was(tmp_path, monkeypatch, first):
    wanted = {} if first else FIVE
    for number in range(1, 1000):
        (tmp_path / str(number)).mkdir()
        host = Host(tmp_path / str(number))
        host.write("2", "second\n", 0o640)
        host.write("3", "third\n", 0o604)
        if first:
            host.apply(first)
        before = snapshot(host.root)
        transaction, _asked = host.begin(wanted)
        with monkeypatch.context() as patch:
            seen = breaking_at(patch, number, OSError(errno.ENOSPC, "No space left on device"))
            # An error that is no obstacle (a directory that exists already) is passed over; then the checks say no.
            with contextlib.suppress(OSError):
                transaction.stage()
                transaction.commit()
        transaction.rollback()
        if len(seen) < number:
            break
        assert snapshot(host.root) == before, f"call {number} ({seen[-1]})"
    assert number > 20


@pytest.mark.parametrize("first", [{}, FIVE], ids=["putting in place", "giving back"])
def test_after_a_crash_at_any_point_the_next_run_finds_the_old_state_or_the_new_one(tmp_path, monkeypatch, first):
    wanted = {} if first else FIVE
    for number in range(1, 1000):
        (tmp_path / str(number)).mkdir()
        host = Host(tmp_path / str(number))
        host.write("2", "second\n", 0o640)
        host.write("3", "third\n", 0o604)
        untouched = snapshot(host.root)
        if first:
            host.apply(first)
        before = snapshot(host.root)
        with monkeypatch.context() as patch:
            seen = breaking_at(patch, number, Crash())
            with contextlib.suppress(Crash):
                host.apply(wanted)
        if len(seen) < number:
            break
        Store("test", host.store.root).recover()
        now = snapshot(host.root)
        leftovers = [path for path in now if "/.rigwright" in path]
        assert not leftovers, f"call {number} ({seen[-1]})"
        if now != before:
            assert {name: read_state(host.path(name)) for name in wanted} == wanted, f"call {number} ({seen[-1]})"
        host.apply(wanted)
        host.apply({})
        assert snapshot(host.root) == untouched, f"call {number} ({seen[-1]})"
    assert number > 20


def test_a_crash_during_the_recovery_is_recovered_from(lived_in, monkeypatch):
    before = snapshot(lived_in.root)
    for number in range(1, 200):
        transaction, _asked = lived_in.begin(FIVE)
        transaction.stage()
        transaction.commit()  # and then the power goes
        with monkeypatch.context() as patch:
            seen = breaking_at(patch, number, Crash())
            with contextlib.suppress(Crash):
                lived_in.store.recover()
        lived_in.store.recover()
        assert snapshot(lived_in.root) == before, f"call {number} ({seen[-1]})"
        if len(seen) < number:
            break


NAMES = st.sampled_from(["a", "b", "c", "d"])
FILES = st.builds(file, st.text(max_size=20), st.sampled_from([0o644, 0o600, 0o755]))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(there=st.dictionaries(NAMES, FILES), runs=st.lists(st.dictionaries(NAMES, FILES | st.just(MISSING)), max_size=4))
def test_any_history_of_runs_can_be_given_back(tmp_path_factory, there, runs):
    host = Host(tmp_path_factory.mktemp("host"))
    for name, state in there.items():
        host.write(name, "", state.mode)
        Path(host.path(name)).write_bytes(state.content)
    before = {name: read_state(host.path(name)) for name in os.listdir(host.root)}
    for wanted in runs:
        host.apply(wanted)
        assert {name: read_state(host.path(name)) for name in wanted} == wanted
    host.apply({})
    assert {name: read_state(host.path(name)) for name in os.listdir(host.root)} == before


def test_two_runs_do_not_change_files_at_once(host, monkeypatch):
    monkeypatch.setattr(_config_files, "LOCK", str(host.root / "lock"))
    monkeypatch.setattr(_config_files, "LOCK_SECONDS", 1)
    entered, leave = threading.Event(), threading.Event()

    def other():
        with Store("other", host.store.root).locked():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    entered.wait(10)
    with pytest.raises(Refused, match="another run"), host.store.locked():
        pass
    leave.set()
    thread.join()

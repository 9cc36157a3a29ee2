# SPDX-License-Identifier: GPL-3.0-or-later
"""Planning and carrying out a set of files: whatever happens, the old state or the new one, never something between."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import config_files, lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import (
    MISSING,
    State,
    Store,
    Transaction,
    Wanted,
    read_state,
    sets_in_place,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Refused
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.support.config_files import NEW, OLD, directory, file

# --- Carrying a plan out, on a real file system ---


def snapshot(root: Path) -> dict[str, tuple]:
    """Return what a restored tree must have again: kind, mode, owner, time and content of everything in it."""

    def entry(path: Path) -> tuple:
        found = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(found.st_mode) else None
        time = found.st_mtime_ns if content is not None else None
        return (found.st_mode, found.st_uid, found.st_gid, time, content)

    return {str(path): entry(path) for path in sorted(root.rglob("*"))}


class Host:
    """A tree under a temporary directory, and a store next to it."""

    def __init__(self, tmp: Path) -> None:
        self.root = tmp / "etc"
        self.root.mkdir()
        self.store = self.set("test")

    def set(self, name: str) -> Store:
        return Store(name, str(self.root.parent / "lib/rigwright/config_files"))

    def path(self, name: str) -> str:
        return str(self.root / name)

    def write(self, name: str, text: str, mode: int = 0o644) -> None:
        Path(self.path(name)).write_text(text)
        os.chmod(self.path(name), mode)
        os.utime(self.path(name), ns=(10**18, 10**18))

    def begin(self, wanted: dict[str, State], store: Store | None = None, secret: bool = False) -> Transaction:
        listed_paths = [Wanted(self.path(name), state, secret) for name, state in wanted.items()]
        return Transaction(store or self.store, listed_paths)

    def apply(self, wanted: dict[str, State], store: Store | None = None, secret: bool = False) -> Transaction:
        transaction = self.begin(wanted, store, secret)
        transaction.stage()
        transaction.commit()
        transaction.finish()
        return transaction

    def states(self) -> dict[str, State]:
        return {str(path): read_state(str(path)) for path in self.root.rglob("*")}


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


FIVE = {"d": directory(0o750), "d/1": file("one\n"), "2": file("two\n", 0o600), "3": MISSING, "4": file("four\n")}


@pytest.fixture
def lived_in(host):
    """Return a host where two of the five files exist already, one of them to be moved away."""
    host.write("2", "second\n", 0o640)
    host.write("3", "third\n", 0o604)
    return host


def test_set_is_applied_and_restored_byte_for_byte(lived_in):
    before = snapshot(lived_in.root)
    lived_in.apply(FIVE)
    assert {name: read_state(lived_in.path(name)) for name in FIVE} == FIVE
    lived_in.apply({})
    assert snapshot(lived_in.root) == before
    assert not os.path.exists(lived_in.store.path)


def test_a_second_run_has_nothing_to_do(lived_in):
    lived_in.apply(FIVE)
    assert not lived_in.begin(FIVE).due


def test_the_first_original_is_restored(lived_in):
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


def test_edited_file_is_kept(lived_in):
    lived_in.apply(FIVE)
    lived_in.write("4", "by hand\n")
    (kept,) = lived_in.apply({}).edited
    assert Path(kept).read_text() == "by hand\n"


@pytest.mark.parametrize("mode", [0o644, 0o600], ids=["as it is", "in another mode"])
def test_edited_file_is_kept_if_the_set_wants_its_content(lived_in, mode):
    lived_in.apply({"2": file("two\n")})
    lived_in.write("2", "two\nby hand\n")
    lived_in.apply({"2": file("two\nby hand\n", mode)})
    (kept,) = lived_in.apply({}).edited
    assert Path(kept).read_text() == "two\nby hand\n"


def test_released_file_stays_and_the_rest_is_restored(lived_in):
    lived_in.apply(FIVE)
    released_path = Wanted(lived_in.path("2"), file("theirs\n"), released=True)
    transaction = Transaction(lived_in.store, [released_path])
    transaction.stage()
    transaction.commit()
    transaction.finish()
    assert read_state(lived_in.path("2")) == file("theirs\n")
    assert read_state(lived_in.path("4")) == MISSING
    assert not os.path.exists(lived_in.store.path)


def test_a_path_of_another_set_is_known(host):
    host.apply({"4": NEW})
    assert host.set("other").owner_of([host.path("4"), host.path("5")]) == {host.path("4"): "test"}


def test_set_is_in_place_until_it_is_removed(host):
    recorded = [sets_in_place(host.store.root)]
    host.apply({"4": NEW})
    host.begin({"5": NEW}, host.set("interrupted")).stage()
    (Path(host.store.root) / "a file").touch()
    recorded.append(sets_in_place(host.store.root))
    host.apply({})
    recorded.append(sets_in_place(host.store.root))
    assert recorded == [[], ["interrupted", "test"], ["interrupted"]]


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")], ids=" before ".join)
@pytest.mark.parametrize("existing", [None, 0o700], ids=["new", "there before"])
def test_last_set_restores_a_shared_directory(host, order, existing):
    if existing:
        os.mkdir(host.path("d"), existing)
    before = snapshot(host.root)
    wanted = {name: {"d": directory(), f"d/{name}": NEW} for name in ("one", "two")}
    for name, files in wanted.items():
        host.apply(files, host.set(name))
    first, last = order
    host.apply({}, host.set(first))
    assert not host.begin(wanted[last], host.set(last)).due, "the other one lacks nothing"
    host.apply({}, host.set(last))
    assert snapshot(host.root) == before


def test_own_directory_made_by_a_program_is_removed(host):
    os.mkdir(host.path("rigwright"))
    host.write("rigwright/program.pyz", "program\n")
    host.apply({"rigwright": directory(), "rigwright/a": NEW})
    assert not host.begin({"rigwright": directory(), "rigwright/a": NEW}).due
    os.unlink(host.path("rigwright/program.pyz"))
    host.apply({})
    assert os.listdir(host.root) == []


def test_an_empty_directory_stays_as_long_as_one_set_wants_it(host):
    host.apply({"d": directory()}, host.set("one"))
    host.apply({"d": directory(), "2": NEW}, host.set("two"))
    host.apply({"2": NEW}, host.set("two"))
    assert os.path.isdir(host.path("d"))
    host.apply({}, host.set("one"))
    assert os.listdir(host.root) == ["2"]


@pytest.mark.parametrize("recorded", [True, False], ids=["of the set", "of the host"])
def test_unchanged_file_is_recorded_as_secret(host, recorded):
    if recorded:
        host.apply({"2": NEW})
    else:
        host.write("2", "new\n")
    transaction = host.apply({"2": NEW}, secret=True)
    assert transaction.steps == [] and transaction.due
    assert not host.begin({"2": NEW}, secret=True).due
    (step,) = host.begin({"2": file("public\n")}).steps
    assert step.secret


def test_original_of_a_secret_file_stays_hidden(host):
    host.write("2", "the host's own secret\n")
    host.apply({"2": OLD}, secret=True)
    host.apply({"2": NEW})
    (step,) = host.begin({}).steps
    assert step.after.content == b"the host's own secret\n" and step.secret


def test_rollback_keeps_a_file_that_a_person_wrote(host):
    transaction = host.begin({"4": NEW})
    transaction.stage()
    host.write("4", "by hand\n")
    transaction.rollback()
    assert Path(host.path("4")).read_text() == "by hand\n"


class Crash(BaseException):
    """Power cut: nothing that would tidy up gets to run."""


CALLS = ["rename", "replace", "link", "unlink", "chown", "fchown", "chmod", "fchmod", "fsync", "open", "utime"]
CALLS += ["mkdir", "makedirs", "rmdir"]


def breaking_at(monkeypatch, number: int, error: BaseException) -> list[str]:
    """Let the ``number``-th call that changes the disk fail; returns the calls seen."""
    calls: list[str] = []

    def wrap(name):
        real = getattr(os, name)

        def call(*args, **kwargs):
            calls.append(name)
            if len(calls) == number:
                raise error
            return real(*args, **kwargs)

        return call

    for name in CALLS:
        monkeypatch.setattr(config_files.os, name, wrap(name))
    return calls


@pytest.mark.parametrize("first", [{}, FIVE], ids=["install", "restore"])
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
        transaction = host.begin(wanted)
        with monkeypatch.context() as patch:
            calls = breaking_at(patch, number, OSError(errno.ENOSPC, "No space left on device"))
            # An error that is no obstacle (a directory that exists already) is passed over; then the checks say no.
            with contextlib.suppress(OSError):
                transaction.stage()
                transaction.commit()
        transaction.rollback()
        if len(calls) < number:
            break
        assert snapshot(host.root) == before, f"call {number} ({calls[-1]})"
    assert number > 20


@pytest.mark.parametrize("first", [{}, FIVE], ids=["install", "restore"])
def test_crash_at_any_point_leaves_the_old_or_new_state(tmp_path, monkeypatch, first):
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
            calls = breaking_at(patch, number, Crash())
            with contextlib.suppress(Crash):
                host.apply(wanted)
        if len(calls) < number:
            break
        host.set("test").recover()
        now = snapshot(host.root)
        leftovers = [path for path in now if "/.rigwright" in path]
        assert not leftovers, f"call {number} ({calls[-1]})"
        if now != before:
            assert {name: read_state(host.path(name)) for name in wanted} == wanted, f"call {number} ({calls[-1]})"
        host.apply(wanted)
        host.apply({})
        assert snapshot(host.root) == untouched, f"call {number} ({calls[-1]})"
    assert number > 20


def test_files_are_written_again_once_after_a_power_cut(host):
    cut = host.begin({"4": NEW})
    cut.stage()
    cut.commit()  # the checks may not have run: nothing of it counts yet

    host.store.recover()

    assert host.apply({"4": NEW}).steps
    assert not host.begin({"4": NEW}).due


def test_a_crash_during_the_recovery_is_recovered_from(lived_in, monkeypatch):
    before = snapshot(lived_in.root)
    for number in range(1, 200):
        transaction = lived_in.begin(FIVE)
        transaction.stage()
        transaction.commit()  # and then the power goes
        with monkeypatch.context() as patch:
            calls = breaking_at(patch, number, Crash())
            with contextlib.suppress(Crash):
                lived_in.store.recover()
        lived_in.store.recover()
        assert snapshot(lived_in.root) == before, f"call {number} ({calls[-1]})"
        if len(calls) < number:
            break


def test_recovery_keeps_a_copy_of_a_repaired_file(host):
    host.write("2", "old\n")
    transaction = host.begin({"2": NEW})
    transaction.stage()
    transaction.commit()  # and then the power goes
    host.write("2", "by hand\n")
    host.store.recover()
    assert Path(host.path("2")).read_text() == "old\n"
    (kept,) = host.store.rescued
    assert Path(kept).read_text() == "by hand\n"


def test_recovery_keeps_a_file_made_after_a_crash(host, monkeypatch):
    transaction = host.begin({"4": NEW})
    with monkeypatch.context() as patch:
        patch.setattr(config_files, "write", _crash_at(".rigwright.4"))
        with pytest.raises(Crash):
            transaction.stage()
    host.write("4", "by hand\n")
    host.store.recover()
    assert os.listdir(host.root) == ["4"] and Path(host.path("4")).read_text() == "by hand\n"
    assert host.store.rescued == []


def _crash_at(part: str):
    real = config_files.write

    def write(path, *args):
        if part in path:
            raise Crash
        real(path, *args)

    return write


@pytest.mark.parametrize("first", [{}, FIVE], ids=["install", "restore"])
def test_crash_at_any_point_loses_no_edited_file(tmp_path, monkeypatch, first):
    for number in range(1, 1000):
        (tmp_path / str(number)).mkdir()
        host = Host(tmp_path / str(number))
        host.write("2", "second\n", 0o640)
        host.write("3", "third\n", 0o604)
        if first:
            host.apply(first)
        with monkeypatch.context() as patch:
            calls = breaking_at(patch, number, Crash())
            with contextlib.suppress(Crash):
                host.apply({} if first else FIVE)
        if len(calls) < number:
            break
        for name in "234":
            Path(host.path("by hand")).write_text(f"{name} by hand\n")
            os.rename(host.path("by hand"), host.path(name))
        store = host.set("test")
        store.recover()
        found = [Path(path).read_text() for path in [*map(host.path, "234"), *store.rescued] if os.path.exists(path)]
        assert {f"{name} by hand\n" for name in "234"} <= {*found}, f"call {number} ({calls[-1]})"
    assert number > 20


# --- Any history: two sets that share a directory, and runs that fail or are cut off at any call ---

FILES = st.builds(file, st.text(max_size=20), st.sampled_from([0o644, 0o600, 0o755]))
OWN = {"one": ["a", "d/a"], "two": ["b", "d/b"]}


def requests(names: list[str]) -> st.SearchStrategy[dict[str, State]]:
    """Generate some of these files, present or absent, with the directory that they need."""
    files = st.dictionaries(st.sampled_from(names), FILES | st.just(MISSING))
    return st.builds(
        lambda files, listed: {**({"d": directory()} if listed or any("/" in name for name in files) else {}), **files},
        files,
        st.booleans(),
    )


RUNS = st.sampled_from(sorted(OWN)).flatmap(
    lambda name: st.tuples(
        st.just(name),
        requests(OWN[name]),
        st.none() | st.integers(1, 60),
        st.sampled_from([OSError(errno.ENOSPC, "No space left on device"), Crash()]),
    )
)


def after(now: dict[str, State], transaction: Transaction) -> dict[str, State]:
    """Return the states that a plan leads to; a directory with something in it is not removed."""
    then = {**now, **{step.path: step.after for step in transaction.steps}}
    existing = {path: state for path, state in then.items() if state != MISSING}
    kept = [path for path in now if path not in existing and any(other.startswith(f"{path}/") for other in existing)]
    return existing | {path: now[path] for path in kept}


def run_until(host: Host, transaction: Transaction, number: int | None, error: BaseException) -> None:
    """Run a transaction as the module does: an error restores everything at once, a crash leaves that to the next run."""
    with pytest.MonkeyPatch.context() as patch:
        if number:
            breaking_at(patch, number, error)
        with contextlib.suppress(Crash):
            try:
                transaction.stage()
                transaction.commit()
                transaction.finish()
            except OSError:
                transaction.rollback()
    transaction.store.recover()


@settings(max_examples=80)
@given(
    existing=st.dictionaries(st.sampled_from(["a", "b"]), FILES),
    folder=st.none() | st.dictionaries(st.sampled_from(["d/a", "d/b", "d/other"]), FILES),
    runs=st.lists(RUNS, max_size=6),
    last=st.permutations(sorted(OWN)),
)
def test_any_history_of_runs_can_be_restored(tmp_path_factory, existing, folder, runs, last):
    host = Host(tmp_path_factory.mktemp("host"))
    if folder is not None:
        os.mkdir(host.path("d"), 0o700)
    for name, state in {**existing, **(folder or {})}.items():
        Path(host.path(name)).write_bytes(state.content)
        os.chmod(host.path(name), state.mode)
    untouched = host.states()
    for name, wanted, number, error in runs:
        before = host.states()
        transaction = host.begin(wanted, host.set(name))
        then = after(before, transaction)
        run_until(host, transaction, number, error)
        assert host.states() in (before, then)
        if number is None:
            assert host.states() == then
            assert not host.begin(wanted, host.set(name)).due, "the second run has nothing to do"
    for name in last:
        host.apply({}, host.set(name))
    assert host.states() == untouched


def test_two_runs_do_not_change_files_at_once(host, monkeypatch):
    monkeypatch.setattr(lock, "DIRECTORY", str(host.root / "lock"))
    monkeypatch.setattr(config_files, "LOCK_SECONDS", 0)
    with host.set("other").locked(), pytest.raises(Refused, match="another run"), host.store.locked():
        pass


def test_link_in_place_of_a_directory_changes_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(0o700)
    (tmp_path / "made").symlink_to("theirs")
    with pytest.raises(NotADirectoryError):
        config_files._set_owner_and_mode(str(tmp_path / "made"), State("directory", None, 0o777, None, None))
    assert (tmp_path / "theirs").stat().st_mode & 0o777 == 0o700

# SPDX-License-Identifier: GPL-3.0-or-later
"""dataset-cache for users of a group and for root: what one of them may do to the others."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.support.storage import dataset_cache_processes as processes
from tests.unit.support.storage.dataset_cache_processes import MIB, Place, await_that, fails, tree

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be several users"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
ML = 62000
ALICE, BOB, CAROL, OTHER = (61001, ML), (61002, ML), (61004, ML), (61003, 62001)


@pytest.fixture
def shared() -> Iterator[Place]:
    """Create a cache as the role does, for a group that needs no name."""
    for place in processes.place():
        own(place.cache, 0, 0o750)
        for name in ("locks", "requests", "sets"):
            (place.cache / name).mkdir()
            own(place.cache / name, 0, 0o3770)
        place.data.chmod(0o755)
        yield place


@pytest.fixture
def images(shared: Place) -> Path:
    return shared.source("images", one=b"1" * 300_000, two=os.urandom(200_000), empty=b"")


def own(path: Path, uid: int, mode: int) -> None:
    os.chown(path, uid, ML)
    path.chmod(mode)


def child(user: tuple[int, int], do: Callable[[], object]) -> int:
    """Run a function as a user, in a process of its own."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setgroups([user[1]])
            os.setgid(user[0])
            os.setuid(user[0])
            do()
            status = 0
        finally:
            os._exit(status)
    return pid


def as_user(user: tuple[int, int], do: Callable[[], object]) -> None:
    assert os.waitpid(child(user, do), 0)[1] == 0


@pytest.fixture
def precious(shared: Place) -> Path:
    """Create a directory that bob can move and rename, but not remove: alice's private folder in one that the group can write."""
    group = shared.top / "group"
    group.mkdir()
    own(group, 0, 0o2775)
    birds = group / "birds"
    (birds / "private").mkdir(parents=True)
    (birds / "private/file").write_bytes(b"precious")
    own(birds, ALICE[0], 0o2775)
    own(birds / "private", ALICE[0], 0o755)
    return birds


def is_kept(place: Place) -> bool:
    return any(path.read_bytes() == b"precious" for path in place.top.rglob("file"))


def of_root(place: Place) -> set[str]:
    """Return the paths in the cache that belong to root."""
    return {str(path.relative_to(place.cache)) for path in place.cache.rglob("*") if path.lstat().st_uid == 0}


def test_users_of_a_group_share_copies_and_cannot_change_them(shared, images):
    copy = shared.get(images, user=ALICE).path
    assert shared.get(images, user=BOB).path == copy
    assert len(shared.rows()) == 1
    assert (copy.stat().st_uid, copy.stat().st_gid) == ALICE

    def write() -> None:
        for path in (copy / "one", copy / "new"):
            with pytest.raises(PermissionError):
                path.write_bytes(b"")
        os._exit(42)

    assert shared.run("status", inject=write, user=BOB).rc == 42
    assert shared.run("rm", images, user=BOB).rc == 10
    assert shared.run("pin", images, user=BOB).rc == 0
    assert shared.run("unpin", images, user=ALICE).rc == 0
    assert tree(copy) == tree(images)


def test_user_outside_of_the_group_is_refused(shared, images):
    shared.get(images, user=ALICE)
    done = shared.get(images, user=OTHER)
    assert done.rc == 10
    assert "Permission denied" in done.err
    assert shared.get(images, "--or-source", user=OTHER).path == images


def test_copies_of_others_go_by_root(shared, images):
    shared.configure(quota="800K")
    other = shared.source("other", file=b"x" * 500_000)
    shared.get(images, user=ALICE)
    done = shared.get(other, user=BOB)
    assert done.rc == 5
    assert "root" in done.err
    assert shared.cached() == {"images"}
    assert shared.run("evict", "--need", "600K").rc == 0
    assert shared.get(other, user=BOB).rc == 0


def test_service_of_root_makes_room_for_users(shared, images):
    shared.configure(quota="800K", evict_service=True)
    other = shared.source("other", file=b"x" * 500_000)
    shared.get(images, user=ALICE)
    running = shared.start("get", other, user=BOB)
    await_that(lambda: list(shared.cache.glob("requests/*")))
    assert shared.run("--quiet", "evict", "--requests").rc == 0
    assert tree(running.wait().path) == tree(other)
    assert shared.cached() == {"other"}
    assert list(shared.cache.glob("requests/*")) == []


def test_removal_of_user_files_by_root_follows_no_link(shared, images):
    copy = shared.get(images, user=ALICE).path
    precious = shared.top / "precious"
    precious.mkdir()
    (precious / "file").write_bytes(b"")
    copy.chmod(0o700)
    (copy / "trap").symlink_to(precious)
    assert shared.run("rm", images).rc == 0
    assert (precious / "file").exists()


def test_concurrent_users_create_one_shared_copy(shared, images):
    (images / "large").write_bytes(os.urandom(10 * MIB))
    running = [shared.start("get", images, user=user) for user in (ALICE, BOB) * 2]
    assert len({process.wait().path for process in running}) == 1


# --- what root does in a cache of users ---


def test_root_makes_nothing_in_a_cache_of_users(shared, images):
    os.chown(images, *ALICE)
    shared.get(images, user=ALICE)
    before = of_root(shared)
    for command in (("get", images), ("pin", images), ("status",), ("verify",), ("unpin", images), ("evict",)):
        assert shared.run(*command).rc == 0
    assert shared.run("run", images, "--", "true").rc == 0
    assert of_root(shared) == before == {"locks", "requests", "sets"}


def test_root_has_copies_made_by_a_member_of_the_group(shared, images):
    done = shared.run("get", images)
    assert done.rc == 10
    assert "member of the group" in done.err
    assert shared.run("pin", images).rc == 10
    assert shared.run("get", "--or-source", images).path == images
    assert list((shared.cache / "sets").iterdir()) == list((shared.cache / "locks").iterdir()) == []


def test_root_refuses_a_cache_with_exchangeable_directories(shared, images):
    for name, mode in ((".", 0o2770), ("sets", 0o2770), ("locks", 0o2770)):
        path = shared.cache / name
        before = path.stat().st_mode
        path.chmod(mode)
        done = shared.run("evict")
        assert done.rc == 10
        assert f"exchange directories: {path}" in done.err
        path.chmod(before)
    own(shared.cache / "requests", BOB[0], 0o3770)
    assert shared.run("status").rc == 10


@pytest.mark.parametrize("mode", [0o750, 0o2770], ids=["made by the role", "made by an older release"])
def test_directory_swapped_for_a_link_exposes_nothing(shared, mode):
    secret = shared.top / "secret"
    secret.mkdir(mode=0o700)
    (secret / "key").write_bytes(b"precious")
    (secret / "key").chmod(0o600)
    shared.cache.chmod(mode)
    places = [shared.cache / "sets/evil", shared.cache / "locks/evil.lock", shared.cache / "requests/1-1"]
    if mode != 0o750:
        for name in ("locks", "requests", "sets"):
            (shared.cache / name).rmdir()
        places = [shared.cache / name for name in ("locks", "requests", "sets")]

    def swap() -> None:
        while True:
            for place in places:
                for link in (secret / "key", secret):
                    for step in (place.rmdir, lambda: place.symlink_to(link), place.unlink):  # noqa: B023
                        with contextlib.suppress(OSError):
                            step()

    pid = child(BOB, swap)
    try:
        for _start in range(20):
            shared.run("evict", "--requests")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    for path, wanted in ((secret, 0o700), (secret / "key", 0o600)):
        status = path.stat()
        assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (0, 0, wanted)
    assert (secret / "key").read_bytes() == b"precious"


def test_link_in_place_of_a_dataset_removes_nothing_elsewhere(shared, precious):
    (precious / "private").rename(precious / "g000001")
    as_user(BOB, lambda: (shared.cache / "sets/evil").symlink_to(precious))
    for command in (("evict", "--need", "1"), ("verify",), ("evict",)):
        assert shared.run(*command).rc == 0
    assert is_kept(shared)
    assert not os.path.lexists(shared.cache / "sets/evil")


@pytest.mark.parametrize("command", [("evict",), ("rm", "evil")], ids=["evict", "rm"])
def test_foreign_folder_moved_into_a_dataset_is_not_removed(shared, precious, command):
    sets = shared.cache / "sets"

    def as_copy() -> None:
        (sets / "evil").mkdir()
        (sets / "evil").chmod(0o3770)
        precious.rename(sets / "evil/g000001")

    as_user(BOB, as_copy)
    shared.run(*command)
    assert is_kept(shared)


def test_folder_of_another_user_as_a_dataset_is_not_removed(shared, precious):
    def as_dataset() -> None:
        (precious / "private").rename(precious / ".trash-1")
        precious.rename(shared.cache / "sets/evil")

    as_user(BOB, as_dataset)
    shared.run("evict")
    assert is_kept(shared)


def test_odd_things_keep_root_neither_busy_nor_from_requests(shared, images, precious):
    shared.get(images, user=ALICE)
    requests, locks = shared.cache / "requests", shared.cache / "locks"
    other = shared.top / "other"
    other.write_bytes(b"")
    os.chown(other, *BOB)

    def litter() -> None:
        (requests / "directory/below").mkdir(parents=True)
        (requests / "directory").chmod(0o700)
        precious.rename(requests / "moved")
        os.mkfifo(requests / "1-fifo")
        (requests / "2-link").symlink_to(images)
        os.mkfifo(locks / "a.lock")
        (locks / "b.lock").symlink_to("/etc/passwd")
        (locks / "c.lock").mkdir()
        os.link(other, locks / "d.lock")
        (shared.cache / "sets/fifo").touch()
        (requests / "400000-1-1").touch()

    as_user(BOB, litter)
    shared.configure(quota="800K")
    done = shared.run("evict", "--requests")
    assert done.rc == 0
    assert shared.cached() == set()
    assert list(requests.iterdir()) == []
    assert [path.suffix for path in locks.iterdir() if not path.name.startswith("images")] == []
    assert [path.name for path in (shared.cache / "sets").iterdir()] == []
    # What may be another user's is kept, out of the way.
    assert is_kept(shared)
    assert len(list(shared.cache.glob(".odd-*"))) == 1


def test_copy_that_cannot_be_removed_keeps_root_from_no_other(shared, images):
    shared.configure(quota="1200K")
    other = shared.source("other", file=b"x" * 500_000)
    copy = shared.get(images, user=BOB).path
    shared.get(other, user=ALICE)
    (copy / "of alice").mkdir()
    (copy / "of alice/file").touch()
    own(copy / "of alice", ALICE[0], 0o700)
    done = shared.run("evict", "--need", "400K")
    assert done.rc == 0
    assert "cannot be removed" in done.err
    assert shared.cached() == set()
    assert (copy.parents[1].parent).exists()


def test_names_and_records_that_make_no_sense_stop_nothing(shared, images):
    shared.get(images, user=ALICE)

    def litter() -> None:
        evil = shared.cache / "sets/evil"
        (evil / "leases").mkdir(parents=True)
        evil.chmod(0o3770)
        (evil / "leases/g000001@9999999999999999999@1@1@1@1").touch()
        (evil / "source").write_text("[" * 100_000)
        (evil / "used").write_text("9" * 100)
        for number, record in enumerate(("[" * 100_000, "{}", '{"disk": 1e999}'), start=1):
            (evil / f"g00000{number}").mkdir()
            (evil / f"g00000{number}").chmod(0o750)
            (evil / f"g00000{number}/record.json").write_text(record)

    as_user(BOB, litter)
    done = shared.run("evict", "--need", "1")
    assert (done.rc, done.err) == (0, "")
    assert shared.cached() == {"images"}


# --- what users do to each other ---


def test_files_of_other_users_are_not_opened_with_o_creat(shared, images):
    """Check the flags of open: in a sticky folder Linux refuses O_CREAT (fs.protected_regular), which a test cannot set."""

    def inject() -> None:
        real = os.open

        def checked(path: str, flags: int, *rest: int, **options: int) -> int:
            assert not flags & os.O_CREAT or flags & os.O_EXCL
            return real(path, flags, *rest, **options)

        os.open = checked  # type: ignore[assignment]

    for user in (ALICE, BOB):
        for command in (("get", images), ("pin", images), ("unpin", images), ("status",), ("release", images)):
            assert shared.run(*command, inject=inject, user=user).rc == 0


def test_owner_of_a_dataset_cannot_redirect_a_copy(shared, images):
    """Keep alice's process writing where it began, whatever bob puts in the place of its staging folder."""
    home = shared.top / "home"
    home.mkdir()
    os.chown(home, *ALICE)
    as_user(BOB, lambda: shared.run("pin", images))
    (folder,) = (shared.cache / "sets").iterdir()
    assert folder.stat().st_uid == BOB[0]
    go = shared.top / "go"
    maker = shared.start(
        "get", images, user=ALICE, inject=processes.at_read(images / "one", lambda: await_that(go.exists))
    )
    await_that(lambda: list(folder.glob(".staging-*/data/images")))

    def swap() -> None:
        (stage,) = folder.glob(".staging-*")
        stage.rename(folder / "away")
        stage.symlink_to(home)

    as_user(BOB, swap)
    go.touch()
    maker.wait()
    assert list(home.iterdir()) == []


def test_renamed_copy_in_use_stays(shared, images):
    shared.run("pin", images, user=BOB)
    copy = shared.get(images, user=ALICE).path
    reader = shared.read(images, user=ALICE)
    folder = copy.parents[2]
    as_user(BOB, lambda: (folder / "g000001").rename(folder / ".trash-1"))
    assert shared.run("evict").rc == 0
    assert (folder / ".trash-1/data/images/one").exists()
    reader.kill()
    shared.run("unpin", images, user=BOB)
    assert shared.run("evict").rc == 0
    assert not (folder / ".trash-1").exists()


def test_dataset_without_copies_is_forgotten(shared, images):
    shared.run("pin", images, user=BOB)
    shared.get(images, user=ALICE)
    shared.run("unpin", images, user=ALICE)
    assert shared.run("rm", images, user=ALICE).rc == 0
    assert shared.run("evict").rc == 0
    assert list((shared.cache / "sets").iterdir()) == []


# --- what users do to keep others from the cache ---


@contextlib.contextmanager
def holding(path: Path, user: tuple[int, int] = BOB) -> Iterator[None]:
    """Hold a lock as a user."""
    ready, signal_end = os.pipe()

    def hold() -> None:
        fd = os.open(path, os.O_RDONLY if path.exists() else os.O_CREAT, 0o640)
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(signal_end, b"1")
        signal.pause()

    pid = child(user, hold)
    os.close(signal_end)
    try:
        assert os.read(ready, 1)
        yield
    finally:
        os.close(ready)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def soon() -> None:
    """Kill a command that waits for ever, and make waits for locks short."""
    signal.alarm(20)
    processes.program.replace("LOCK_S", 0.2)


def own_set(place: Place, *names: str, name: str = "evil") -> Path:
    """Create a dataset of bob by hand, with folders in it."""
    folder = place.cache / "sets" / name

    def make() -> None:
        folder.mkdir()
        folder.chmod(0o3770)
        for folder_name in names:
            (folder / folder_name).mkdir()
            (folder / folder_name).chmod(0o750)

    as_user(BOB, make)
    return folder


@pytest.mark.parametrize(
    ("name", "item"),
    [("evil", "g" + "9" * 250), ("evil", "g" + "9" * 18), ("evil", ".trash-" + "9" * 245), ("e" * 255, "g000001")],
    ids=["generation", "last", "trash", "dataset"],
)
def test_long_name_in_a_dataset_does_not_block_other_datasets(shared, images, name, item):
    own_set(shared, item, name=name)
    for command, user in ((("evict", "--requests"), None), (("get", images), ALICE), (("status",), ALICE)):
        assert shared.run(*command, user=user).rc == 0


def test_unreadable_dataset_blocks_no_other(shared, images):
    own_set(shared)

    def inject() -> None:
        real = processes.program.Cache.read

        def read(cache: object, folder: object, name: str) -> object:
            return fails(errno.EIO)() if name == "evil" else real(cache, folder, name)

        processes.program.Cache.read = read

    for command, user in ((("evict",), None), (("get", images), ALICE), (("status",), ALICE)):
        assert shared.run(*command, inject=inject, user=user).rc == 0


def test_next_copy_has_a_number_that_is_read(shared, images):
    shared.run("pin", images, user=BOB)
    (folder,) = (shared.cache / "sets").iterdir()
    as_user(BOB, (folder / ("g" + "9" * 18)).mkdir)
    shared.get(images, user=ALICE)
    assert shared.cached() == {"images"}


def test_lock_of_a_user_does_not_block_other_datasets(shared, images):
    own_set(shared, ".staging-1", "g000001")
    with holding(shared.cache / "locks/evil.lock"):
        assert shared.run("evict", "--requests", inject=soon).rc == 0
        assert shared.run("get", images, inject=soon, user=ALICE).rc == 0
        for command in ("status", "verify"):
            assert shared.run(command, inject=soon).rc in (0, 8)


@pytest.mark.parametrize("path", ["locks", "locks/{}.lock"])
def test_root_does_not_wait_for_ever_for_a_user(shared, images, path):
    shared.get(images, user=ALICE)
    name = next((shared.cache / "sets").iterdir()).name
    with holding(shared.cache / path.format(name)):
        for command in (("unpin", images), ("rm", images)):
            assert shared.run(*command, inject=soon).rc in (8, 9)
        assert shared.run("evict", inject=soon).rc in (0, 8)


def test_lock_of_a_copy_does_not_block_other_users(shared, images):
    copy = shared.get(images, user=ALICE).path
    with holding(copy.parents[1] / "use"):
        assert shared.run("get", images, inject=soon, user=BOB).rc == 0
        assert shared.run("verify", inject=soon).rc == 8


def test_lock_of_the_room_is_free_while_a_dataset_is_locked(shared, images):
    shared.run("pin", images, user=BOB)
    name = next((shared.cache / "sets").iterdir()).name
    ready, signal_end = os.pipe()
    go = shared.top / "go"

    def inject() -> None:
        real = processes.program.Making.reserve

        def reserve(*arguments: object) -> None:
            os.write(signal_end, b"1")
            await_that(go.exists)
            real(*arguments)

        processes.program.Making.reserve = reserve

    waiting = shared.start("get", images, inject=inject, user=ALICE)
    assert os.read(ready, 1)
    with holding(shared.cache / f"locks/{name}.lock"):
        go.touch()
        other = shared.source("other", file=b"x")
        assert shared.run("get", other, inject=soon, user=ALICE).rc == 0
    assert waiting.wait().rc == 0


@pytest.mark.parametrize(
    "change",
    [
        {"source": "\ud800"},
        {"name": "\ud800"},
        {"source": "/a\0b"},
    ],
    ids=repr,
)
def test_record_that_a_user_wrote_ends_no_command(shared, images, change):
    shared.get(images, user=ALICE)
    copy = own_set(shared, "g000001") / "g000001"

    def write() -> None:
        record = json.loads(next(shared.cache.glob("sets/images*/g*/record.json")).read_text())
        (copy / "data/images").mkdir(parents=True)
        (copy / "record.json").write_text(json.dumps(record | change))
        (copy.parent / "source").write_text(json.dumps(change.get("source", "")))
        (copy / "use").touch()

    as_user(BOB, write)
    for command in (("status", "--check"), ("verify",), ("evict",)):
        done = shared.run(*command)
        assert done.rc in (0, 7)
        assert "Traceback" not in done.err
    assert shared.cached() == {"images"}


@pytest.mark.parametrize(
    ("row", "record"),
    [({"hash": None}, {}), ({"path": 1}, {}), ({"path": "\ud800"}, {}), ({}, {"algorithm": "shake_128"})],
    ids=repr,
)
def test_copy_that_its_owner_changed_ends_no_command(shared, images, row, record):
    folder = shared.get(images, user=ALICE).path.parents[1]

    def write() -> None:
        rows = [json.loads(line) | row for line in (folder / "manifest").read_text().splitlines()]
        text = "".join(json.dumps(entry) + "\n" for entry in rows)
        sum_of = {"manifest": hashlib.sha256(text.encode()).hexdigest()}
        changed = json.loads((folder / "record.json").read_text()) | sum_of | record
        folder.chmod(0o750)
        for name, content in (("manifest", text), ("record.json", json.dumps(changed))):
            (folder / name).unlink()
            (folder / name).write_text(content)

    as_user(ALICE, write)
    done = shared.run("verify")
    assert done.rc == 7
    assert ("no record" if record else "its manifest is none") in done.err


def test_number_after_the_largest_use_can_be_read(shared, images):
    other = shared.source("other", file=b"x" * 300_000)
    for source in (other, images):
        shared.get(source, user=ALICE)
    for folder in (shared.cache / "sets").iterdir():
        (folder / "used").write_text(f"{'9' * 18} {1 if 'images' in folder.name else 2}\n")
    shared.get(images, user=ALICE)
    shared.configure(quota="600K")
    shared.run("evict")
    assert shared.cached() == {"images"}


# --- whom the cache believes ---


def dataset_of(place: Place) -> Path:
    (folder,) = (place.cache / "sets").iterdir()
    return folder


@pytest.mark.parametrize("pinned", [True, False], ids=["pinned", "not pinned"])
@pytest.mark.parametrize("how", ["file", "link"])
def test_mark_of_another_member_removes_no_copy(shared, images, how, pinned):
    copy = shared.get(images, user=ALICE).path
    inode = copy.stat().st_ino
    if pinned:
        shared.run("pin", images, user=ALICE)
    mark = dataset_of(shared) / "g000001.damaged"
    as_user(BOB, mark.touch if how == "file" else lambda: os.link(mark.with_name("used"), mark))
    assert shared.run("evict").rc == 0
    assert shared.get(images, user=ALICE).path.stat().st_ino == inode


def test_damaged_copy_goes_when_it_is_no_longer_pinned(shared, images):
    copy = shared.get(images, user=ALICE).path
    shared.run("pin", images, user=BOB)
    as_user(ALICE, lambda: os.close(os.open(dataset_of(shared) / "g000001.damaged", os.O_CREAT, 0o640)))
    assert shared.rows("damaged")
    shared.run("evict")
    assert copy.exists()
    shared.run("unpin", images, user=BOB)
    shared.run("evict")
    assert not copy.exists()


@pytest.mark.parametrize("mark", [True, False], ids=["with a mark", "without"])
def test_member_gets_a_new_copy_for_a_damaged_one(shared, images, mark):
    copy = shared.get(images, user=ALICE).path
    os.utime(copy / "one")
    if mark:
        as_user(CAROL, (dataset_of(shared) / "g000001.damaged").touch)
    new = shared.get(images, user=BOB).path
    assert tree(new) == tree(images)
    assert shared.get(images, user=ALICE).path == new != copy


@pytest.mark.parametrize("keep", ["lease", "pin"])
@pytest.mark.parametrize("name", [".trash-1", ".staging-1"])
def test_renamed_copy_keeps_leases_and_pins(shared, images, name, keep):
    shared.run("pin", images, user=BOB)
    shared.run("get", "--pid", os.getpid(), images, user=ALICE)
    if keep == "lease":
        shared.run("unpin", images, user=BOB)
    else:
        shared.run("release", "--pid", os.getpid(), images, user=ALICE)
    folder = dataset_of(shared)
    as_user(BOB, lambda: (folder / "g000001").rename(folder / name))
    shared.run("evict")
    shared.run("rm", images)
    assert (folder / name / "data/images/one").exists()
    shared.run("unpin", images, user=BOB)
    shared.run("release", "--pid", os.getpid(), images, user=ALICE)
    shared.run("evict")
    assert not folder.exists()


def test_root_uses_only_copies_of_root_or_the_source_owner(shared, images):
    copy = shared.get(images, user=ALICE).path
    assert shared.run("get", images).rc == 10
    assert shared.run("get", "--offline", images).rc == 9
    assert shared.run("get", "--or-source", images).path == images
    assert shared.get(images, user=BOB).path == copy
    os.chown(images, *ALICE)
    assert shared.get(images).path == copy


def test_root_has_no_copy_in_a_dataset_of_another_member(shared, images):
    os.chown(images, *ALICE)
    shared.run("pin", images, user=BOB)
    shared.get(images, user=ALICE)
    assert shared.run("get", images).rc == 10


def test_copy_of_another_source_is_not_served(shared, images):
    copy = shared.get(images, user=ALICE).path
    record = copy.parents[1] / "record.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"source": str(shared.data)}))
    assert shared.get(images, user=ALICE).path != copy


def test_locks_are_files_that_others_cannot_write(shared, images):
    shared.get(images, user=ALICE)
    for lock in (shared.cache / "locks").iterdir():
        assert stat.S_IMODE(lock.stat().st_mode) == 0o640
        lock.chmod(0o660)
    shared.get(images, user=ALICE)
    assert {stat.S_IMODE(path.stat().st_mode) for path in shared.cache.glob("locks/*.lock")} == {0o640}


@pytest.mark.parametrize("how", ["link", "exchange"])
def test_copy_that_is_made_stays_whatever_becomes_of_its_lock(shared, images, how):
    go = shared.top / "go"
    block = processes.at_read(images / "one", lambda: await_that(go.exists))
    maker = shared.start("get", images, inject=block, user=ALICE)
    await_that(lambda: list(shared.cache.glob("sets/*/.staging-*/data/images")))
    (lock,) = (shared.cache / "locks").glob("*.make")
    if how == "link":
        os.link(lock, lock.with_name("other.make"))
    else:
        lock.unlink()
        as_user(BOB, lock.touch)
    for command in (("evict",), ("rm", images), ("evict", "--need", "1")):
        shared.run(*command)
    assert lock.exists()
    assert shared.rows("making")
    go.touch()
    assert tree(maker.wait().path) == tree(images)


def test_status_reads_a_source_as_the_owner_of_the_copy(shared, images):
    shared.get(images, user=ALICE)
    images.chmod(0o700)
    (row,) = json.loads(shared.run("status", "--check", "--json").out)["datasets"]
    assert row["state"] == "sourceless"


def test_folder_moved_out_by_root_is_removed_or_reported(shared):
    for name in (".odd-empty", ".odd-full"):
        (shared.cache / name).mkdir()
        own(shared.cache / name, ALICE[0], 0o2770)
    (shared.cache / ".odd-full/file").touch()
    shared.run("evict")
    assert shared.status()["odd"] == [str(shared.cache / ".odd-full")]
    assert ".odd-full was no part of the cache" in shared.run("status").out

# SPDX-License-Identifier: GPL-3.0-or-later
"""dataset-cache for users of a group and for root: what one of them may do to the others."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit import dataset_cache_processes as processes
from tests.unit.dataset_cache_processes import MIB, Place, await_that, tree

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be several users"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
ML = 62000
ALICE, BOB, STRANGER = (61001, ML), (61002, ML), (61003, 62001)


@pytest.fixture
def shared() -> Iterator[Place]:
    """A cache as the role makes it, for a group of which no name is needed."""
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
    """Do something as a user, in a process of its own."""
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
    """What bob may move and rename, but not remove: alice's private folder in one that the group may write."""
    group = shared.top / "group"
    group.mkdir()
    own(group, 0, 0o2775)
    birds = group / "birds"
    (birds / "private").mkdir(parents=True)
    (birds / "private/file").write_bytes(b"precious")
    own(birds, ALICE[0], 0o2775)
    own(birds / "private", ALICE[0], 0o755)
    return birds


def there(place: Place) -> bool:
    return any(path.read_bytes() == b"precious" for path in place.top.rglob("file"))


def of_root(place: Place) -> set[str]:
    """Whatever belongs to root in the cache."""
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

    assert shared.run("status", fault=write, user=BOB).rc == 42
    assert shared.run("rm", images, user=BOB).rc == 10
    assert shared.run("pin", images, user=BOB).rc == 0
    assert shared.run("unpin", images, user=ALICE).rc == 0
    assert tree(copy) == tree(images)


def test_user_outside_of_the_group_is_told_so(shared, images):
    shared.get(images, user=ALICE)
    done = shared.get(images, user=STRANGER)
    assert done.rc == 10
    assert "Permission denied" in done.err
    assert shared.get(images, "--or-source", user=STRANGER).path == images


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


def test_root_that_removes_what_a_user_made_follows_no_link(shared, images):
    copy = shared.get(images, user=ALICE).path
    precious = shared.top / "precious"
    precious.mkdir()
    (precious / "file").write_bytes(b"")
    copy.chmod(0o700)
    (copy / "trap").symlink_to(precious)
    assert shared.run("rm", images).rc == 0
    assert (precious / "file").exists()


def test_users_at_once_make_one_copy_each_may_use(shared, images):
    (images / "large").write_bytes(os.urandom(10 * MIB))
    running = [shared.start("get", images, user=user) for user in (ALICE, BOB) * 2]
    assert len({one.wait().path for one in running}) == 1


# --- what root does in a cache of users ---


def test_root_makes_nothing_in_a_cache_of_users(shared, images):
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


def test_root_keeps_away_from_a_cache_in_which_users_can_exchange_directories(shared, images):
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
def test_directory_that_becomes_a_link_while_root_starts_gives_nothing_away(shared, mode):
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


def test_link_in_the_place_of_a_dataset_removes_nothing_elsewhere(shared, precious):
    (precious / "private").rename(precious / "g000001")
    as_user(BOB, lambda: (shared.cache / "sets/evil").symlink_to(precious))
    for command in (("evict", "--need", "1"), ("verify",), ("evict",)):
        assert shared.run(*command).rc == 0
    assert there(shared)
    assert not os.path.lexists(shared.cache / "sets/evil")


@pytest.mark.parametrize("command", [("evict",), ("rm", "evil")], ids=["evict", "rm"])
def test_folder_of_another_user_that_was_moved_into_the_cache_is_not_removed(shared, precious, command):
    sets = shared.cache / "sets"

    def as_copy() -> None:
        (sets / "evil").mkdir()
        (sets / "evil").chmod(0o3770)
        precious.rename(sets / "evil/g000001")

    as_user(BOB, as_copy)
    shared.run(*command)
    assert there(shared)


def test_folder_of_another_user_as_a_dataset_is_not_removed(shared, precious):
    def as_dataset() -> None:
        (precious / "private").rename(precious / ".trash-1")
        precious.rename(shared.cache / "sets/evil")

    as_user(BOB, as_dataset)
    shared.run("evict")
    assert there(shared)


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
    assert there(shared)
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


def test_no_file_of_somebody_else_is_opened_to_be_made(shared, images):
    """Linux refuses that in a sticky folder (fs.protected_regular), where a test cannot have it so."""

    def fault() -> None:
        real = os.open

        def checked(path: str, flags: int, *rest: int, **options: int) -> int:
            assert not flags & os.O_CREAT or flags & os.O_EXCL
            return real(path, flags, *rest, **options)

        os.open = checked  # type: ignore[assignment]

    for user in (ALICE, BOB):
        for command in (("get", images), ("pin", images), ("unpin", images), ("status",), ("release", images)):
            assert shared.run(*command, fault=fault, user=user).rc == 0


def test_owner_of_a_dataset_cannot_lead_the_copy_of_another_elsewhere(shared, images):
    """Alice's process writes where it began to write, whatever bob puts in the place of its staging folder."""
    home = shared.top / "home"
    home.mkdir()
    os.chown(home, *ALICE)
    as_user(BOB, lambda: shared.run("pin", images))
    (folder,) = (shared.cache / "sets").iterdir()
    assert folder.stat().st_uid == BOB[0]
    go = shared.top / "go"
    maker = shared.start(
        "get", images, user=ALICE, fault=processes.at_read(images / "one", lambda: await_that(go.exists))
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


def test_copy_that_is_read_stays_whatever_the_owner_of_the_dataset_calls_it(shared, images):
    shared.run("pin", images, user=BOB)
    copy = shared.get(images, user=ALICE).path
    reader = shared.read(images)
    folder = copy.parents[2]
    as_user(BOB, lambda: (folder / "g000001").rename(folder / ".trash-1"))
    assert shared.run("evict").rc == 0
    assert (folder / ".trash-1/data/images/one").exists()
    reader.kill()
    assert shared.run("evict").rc == 0
    assert not (folder / ".trash-1").exists()


def test_dataset_whose_last_copy_its_owner_has_not_removed_is_forgotten(shared, images):
    shared.run("pin", images, user=BOB)
    shared.get(images, user=ALICE)
    shared.run("unpin", images, user=ALICE)
    assert shared.run("rm", images, user=ALICE).rc == 0
    assert shared.run("evict").rc == 0
    assert list((shared.cache / "sets").iterdir()) == []

# SPDX-License-Identifier: GPL-3.0-or-later
"""A repository is created where there is none, opened where there is one, and takes another password; with the real restic."""

from __future__ import annotations

import dataclasses
import json
import os
import pwd
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.record import RepositoryRecord
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.repository import Opener, OpenError
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import probe, read_version

from tests.unit.support.backup.hosts import EACH_RESTIC, empty_repository
from tests.unit.support.backup.restic_keys import weaken_new

OLD, NEW, NEXT = "correct horse battery", "another long password", "and then a third one"
Make = Callable[..., Opener]


@pytest.fixture
def tmp_path(open_path: Path) -> Path:
    """Restic runs as another user."""
    return open_path


@pytest.fixture(params=EACH_RESTIC)
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return a function that opens the repository `disk` with a password, owned by an unprivileged user."""
    weaken_new(monkeypatch)
    (tmp_path / "secrets").mkdir(mode=0o700)
    (tmp_path / "scratch").mkdir(mode=0o700)
    program = request.param()

    def opener(password: str = OLD, user: str = "nobody", **changes: Any) -> Opener:
        entry: Any = {"name": "disk", "url": str(tmp_path / "repository"), "password": password, **changes}
        places: Any = [str(tmp_path / name) for name in ("secrets", "scratch")]
        return Opener(entry, program, read_version(program), user, *places)

    return opener


def create_repository(make: Make, tmp_path: Path) -> RepositoryRecord:
    """Create a repository with the old password, and return its record."""
    shutil.copytree(empty_repository(make().program), tmp_path / "repository")
    for path in (tmp_path / "repository", *(tmp_path / "repository").rglob("*")):
        shutil.chown(path, "nobody", "nogroup")
    return make().open(RepositoryRecord())[1]


def in_place(tmp_path: Path, password: str) -> None:
    """Write the password as config_files does."""
    (tmp_path / "secrets/disk.password").write_text(password + "\n")


def opens(make: Make, *passwords: str) -> list[str]:
    return [probe(make(password).new)[0].kind for password in passwords]


def test_a_repository_is_created_once_and_then_opened(make: Make, tmp_path: Path) -> None:
    done, record = make().open(RepositoryRecord())
    assert done == "made" and record.id and record.key and record.asked == make().settings
    owner = pwd.getpwnam("nobody").pw_uid
    assert {path.stat().st_uid for path in (tmp_path / "repository").rglob("*")} == {owner}
    assert make().open(record) == ("opened", record)
    assert RepositoryRecord.of(json.loads(json.dumps(record.row()))) == record


def test_a_wrong_password_never_recreates_a_repository(make: Make, tmp_path: Path) -> None:
    create_repository(make, tmp_path)
    with pytest.raises(OpenError, match="does not take its password, and no other is known"):
        make(NEW).open(RepositoryRecord())
    in_place(tmp_path, "and this one is wrong too")
    with pytest.raises(OpenError, match="neither the new password nor the one in place"):
        make(NEW).open(RepositoryRecord())
    assert len(list((tmp_path / "repository/keys").iterdir())) == 1
    assert make().open(RepositoryRecord())[0] == "opened"


def test_an_old_password_is_retired_after_the_new_one_works(make: Make, tmp_path: Path) -> None:
    first = create_repository(make, tmp_path)
    in_place(tmp_path, OLD)
    done, record = make(NEW).open(first)
    assert done == "password_added" and record.retire == (first.key,)
    # A run that ends here locks nobody out: both open it. And one that ended before anybody had written that down is found out.
    assert opens(make, OLD, NEW) == ["ok", "ok"]
    assert make(NEW).open(record) == ("password_added", record)
    assert make(NEW).open(RepositoryRecord()) == ("password_added", record)

    in_place(tmp_path, NEW)
    done, record = make(NEW).retire(record)
    assert done == "password_retired" and record.retire == ()
    assert opens(make, OLD, NEW) == ["wrong_password", "ok"]
    assert make(NEW).open(record) == ("opened", record)


def test_only_the_last_password_remains_after_killed_runs(make: Make, tmp_path: Path) -> None:
    record = create_repository(make, tmp_path)
    in_place(tmp_path, OLD)
    for password in (NEW, NEXT):
        done, record = make(password).open(record)
        assert done == "password_added"
    assert len(record.retire) == 2
    in_place(tmp_path, NEXT)
    assert make(NEXT).retire(record)[0] == "password_retired"
    assert opens(make, OLD, NEW, NEXT) == ["wrong_password", "wrong_password", "ok"]


def test_the_old_password_can_be_used_again(make: Make, tmp_path: Path) -> None:
    first = create_repository(make, tmp_path)
    in_place(tmp_path, OLD)
    _done, record = make(NEW).open(first)
    done, back = make(OLD).open(record)
    assert (done, back.key, back.retire) == ("password_added", first.key, (record.key,))


def test_a_password_moves_from_the_inventory_to_files(make: Make, tmp_path: Path) -> None:
    first, two = tmp_path / "one", tmp_path / "two"
    first.write_text(NEW + "\n")
    two.write_text(NEXT)
    record = create_repository(make, tmp_path)
    in_place(tmp_path, OLD)
    done, record = make("", password_file=str(first)).open(record)
    assert done == "password_added"
    (tmp_path / "secrets/disk.password").unlink()
    done, record = make("", password_file=str(first)).retire(record)
    assert done == "password_retired" and opens(make, OLD, NEW) == ["wrong_password", "ok"]

    # Another file: the last one is remembered, and opens it.
    done, record = make("", password_file=str(two)).open(record)
    assert done == "password_added"
    assert make("", password_file=str(two)).retire(record)[0] == "password_retired"
    assert opens(make, NEW, NEXT) == ["wrong_password", "ok"]

    two.write_text("not what opens it")
    with pytest.raises(OpenError, match="does not take its password, and no other is known"):
        make("", password_file=str(two)).open(record)
    two.unlink()
    with pytest.raises(OpenError, match="has no password"):
        make("", password_file=str(two))


def test_keys_that_a_server_keeps_stay_in_the_record(make: Make, tmp_path: Path) -> None:
    record = create_repository(make, tmp_path)
    gone = []
    for before, password in ((OLD, NEW), (NEW, NEXT)):
        gone.append(record.key)
        in_place(tmp_path, before)
        _done, record = make(password, append_only=True).open(record)
        in_place(tmp_path, password)
        done, record = make(password, append_only=True).retire(record)
        assert (done, record.kept) == ("password_kept", tuple(gone))
    assert make(NEXT, append_only=True).open(record) == ("opened", record)
    # On the server.
    assert make(NEXT).new.run("key", "remove", gone[0]).rc == 0
    assert make(NEXT, append_only=True).open(record)[1].kept == (gone[1],)


def test_a_lost_repository_is_not_created_again(make: Make, tmp_path: Path) -> None:
    record = create_repository(make, tmp_path)
    place = tmp_path / "repository"
    place.rename(tmp_path / "away")
    with pytest.raises(OpenError, match=r"not where it was .*mount its disk"):
        make().open(record)
    place.mkdir()
    with pytest.raises(OpenError, match="not where it was"):
        make().open(record)
    assert list(place.iterdir()) == [] and place.stat().st_uid == 0, "nothing was changed"
    make().open(RepositoryRecord())
    with pytest.raises(OpenError, match="another repository than before"):
        make().open(record)
    # It has moved.
    done, moved = make(url=str(tmp_path / "away")).open(record)
    assert (done, moved.id, moved.key) == ("opened", record.id, record.key)


def test_where_there_are_keys_and_no_config_nothing_is_made(make: Make, tmp_path: Path) -> None:
    create_repository(make, tmp_path)
    (tmp_path / "repository/config").unlink()
    with pytest.raises(OpenError, match="has keys and no config"):
        make().open(RepositoryRecord())
    assert not (tmp_path / "repository/config").exists()


def test_another_user_becomes_owner_of_the_repository_only(make: Make, tmp_path: Path) -> None:
    record = create_repository(make, tmp_path)
    place = tmp_path / "repository"
    (place / "roots").write_text("x")
    (place / "link").symlink_to("/etc/passwd")
    os.chown(place / "link", pwd.getpwnam("nobody").pw_uid, -1, follow_symlinks=False)
    with pytest.raises(OpenError, match="belongs to another user than daemon"):
        make(user="daemon").open(RepositoryRecord())
    assert record.is_due(make(user="daemon").settings)
    _done, record = make(user="daemon").open(record)
    assert record.asked.owner == "daemon"
    uids = {path.lstat().st_uid for path in place.rglob("*") if path.name != "roots"}
    assert uids == {pwd.getpwnam("daemon").pw_uid}
    assert [Path(path).stat().st_uid for path in (place / "roots", "/etc/passwd")] == [0, 0]


@pytest.mark.parametrize("target", ["empty", "new", "etc"])
def test_nothing_is_given_away_where_another_user_can_put_a_link(make: Make, tmp_path: Path, target: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/shadow").touch()
    theirs = tmp_path / "home"
    theirs.mkdir()
    os.chown(theirs, 4002, 4002)
    opener = make(url=str(theirs / "repository"))
    record = RepositoryRecord(dataclasses.replace(opener.settings, owner="daemon"))
    with pytest.raises(
        OpenError, match="users other than root and nobody can change .*/home. To do: `chown root:root`"
    ):
        opener.open(record)
    assert not (theirs / "repository").exists()
    (theirs / "repository").symlink_to(tmp_path / target)
    with pytest.raises(OpenError, match="can change"):
        opener.open(record)
    os.chown(theirs, 0, 0)
    with pytest.raises(OpenError, match=f"leads through a link to .*{target}"):
        opener.open(record)
    assert {path.lstat().st_uid for path in tmp_path.rglob("*") if not path.is_symlink()} == {0}
    assert not (tmp_path / "new").exists()


def test_a_repository_can_be_in_a_directory_of_its_user(make: Make, tmp_path: Path) -> None:
    (tmp_path / "srv").mkdir()
    shutil.chown(tmp_path / "srv", "nobody")
    assert make(url=str(tmp_path / "srv/ws1/ws1")).open(RepositoryRecord())[0] == "made"


def test_missing_and_foreign_repositories_are_refused(make: Make, tmp_path: Path) -> None:
    with pytest.raises(OpenError, match="its `init` is false"):
        make(init=False).open(RepositoryRecord())
    (tmp_path / "repository/thesis").write_text("x")
    os.chown(tmp_path / "repository", 0, 0)
    with pytest.raises(OpenError, match="not empty and belongs to another user"):
        make().open(RepositoryRecord())
    assert os.listdir(tmp_path / "repository") == ["thesis"]


def test_a_server_that_does_not_answer_is_no_missing_repository(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    opener = make(url="rest:http://127.0.0.1:9/x/")
    run = opener.new.run
    monkeypatch.setattr(opener.new, "run", lambda *arguments, **options: run(*arguments, **{**options, "timeout_s": 4}))
    with pytest.raises(OpenError, match="cannot be opened"):
        opener.open(RepositoryRecord())

# SPDX-License-Identifier: GPL-3.0-or-later
"""A repository is made where there is none, opened where it is, and takes another password; with the real restic."""

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
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import read_version
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.record import Known
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.repository import Opener, OpenError
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import probe

from tests.unit.support.backup.hosts import EACH_RESTIC, empty_repository

OLD, NEW, NEXT = "correct horse battery", "another long password", "and then a third one"
Make = Callable[..., Opener]


@pytest.fixture
def tmp_path(open_path: Path) -> Path:
    """Restic runs as another user."""
    return open_path


@pytest.fixture(params=EACH_RESTIC)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """An opener of the repository `disk` with a password; whoever has the lowest rights owns it."""
    (tmp_path / "secrets").mkdir(mode=0o700)
    (tmp_path / "scratch").mkdir(mode=0o700)
    program = request.param()

    def opener(password: str = OLD, user: str = "nobody", **changes: Any) -> Opener:
        entry = {"name": "disk", "url": str(tmp_path / "repository"), "password": password, **changes}
        places = [str(tmp_path / name) for name in ("secrets", "scratch")]
        return Opener(entry, program, read_version(program), user, *places)

    return opener


def made(make: Make, tmp_path: Path) -> Known:
    """What is known of one that was made before, by the old password."""
    shutil.copytree(empty_repository(make().program), tmp_path / "repository")
    for path in (tmp_path / "repository", *(tmp_path / "repository").rglob("*")):
        shutil.chown(path, "nobody", "nogroup")
    return make().open(Known())[1]


def in_place(tmp_path: Path, password: str) -> None:
    """The password as config_files has put it there."""
    (tmp_path / "secrets/disk.password").write_text(password + "\n")


def opens(make: Make, *passwords: str) -> list[str]:
    return [probe(make(password).new)[0].kind for password in passwords]


def test_a_repository_is_made_for_the_user_of_the_units_and_opened_the_next_time(make: Make, tmp_path: Path) -> None:
    done, known = make().open(Known())
    assert done == "made" and known.id and known.key and known.asked == make().asked
    owner = pwd.getpwnam("nobody").pw_uid
    assert {path.stat().st_uid for path in (tmp_path / "repository").rglob("*")} == {owner}
    assert make().open(known) == ("opened", known)
    assert Known.of(json.loads(json.dumps(known.row()))) == known


def test_a_wrong_password_is_never_a_reason_to_make_it_anew(make: Make, tmp_path: Path) -> None:
    made(make, tmp_path)
    with pytest.raises(OpenError, match="does not take its password, and no other is known"):
        make(NEW).open(Known())
    in_place(tmp_path, "and this one is wrong too")
    with pytest.raises(OpenError, match="neither the new password nor the one in place"):
        make(NEW).open(Known())
    assert len(list((tmp_path / "repository/keys").iterdir())) == 1
    assert make().open(Known())[0] == "opened"


def test_a_new_password_comes_beside_the_old_one_which_goes_when_the_file_has_changed(
    make: Make, tmp_path: Path
) -> None:
    first = made(make, tmp_path)
    in_place(tmp_path, OLD)
    done, known = make(NEW).open(first)
    assert done == "password_added" and known.retire == (first.key,)
    # A run that ends here locks nobody out: both open it. And one that ended before anybody had written that down is found out.
    assert opens(make, OLD, NEW) == ["ok", "ok"]
    assert make(NEW).open(known) == ("password_added", known)
    assert make(NEW).open(Known()) == ("password_added", known)

    in_place(tmp_path, NEW)
    done, known = make(NEW).retire(known)
    assert done == "password_retired" and known.retire == ()
    assert opens(make, OLD, NEW) == ["wrong_password", "ok"]
    assert make(NEW).open(known) == ("opened", known)


def test_of_passwords_that_follow_one_another_in_runs_that_are_killed_the_last_alone_is_left(
    make: Make, tmp_path: Path
) -> None:
    known = made(make, tmp_path)
    in_place(tmp_path, OLD)
    for password in (NEW, NEXT):
        done, known = make(password).open(known)
        assert done == "password_added"
    assert len(known.retire) == 2
    in_place(tmp_path, NEXT)
    assert make(NEXT).retire(known)[0] == "password_retired"
    assert opens(make, OLD, NEW, NEXT) == ["wrong_password", "wrong_password", "ok"]


def test_who_goes_back_to_the_old_password_keeps_that_one(make: Make, tmp_path: Path) -> None:
    first = made(make, tmp_path)
    in_place(tmp_path, OLD)
    _done, known = make(NEW).open(first)
    done, back = make(OLD).open(known)
    assert (done, back.key, back.retire) == ("password_added", first.key, (known.key,))


def test_a_password_goes_from_the_inventory_into_a_file_of_the_host_and_on(make: Make, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text(NEW + "\n")
    two.write_text(NEXT)
    known = made(make, tmp_path)
    in_place(tmp_path, OLD)
    done, known = make("", password_file=str(one)).open(known)
    assert done == "password_added"
    (tmp_path / "secrets/disk.password").unlink()
    done, known = make("", password_file=str(one)).retire(known)
    assert done == "password_retired" and opens(make, OLD, NEW) == ["wrong_password", "ok"]

    # Another file: the last one is remembered, and opens it.
    done, known = make("", password_file=str(two)).open(known)
    assert done == "password_added"
    assert make("", password_file=str(two)).retire(known)[0] == "password_retired"
    assert opens(make, NEW, NEXT) == ["wrong_password", "ok"]

    two.write_text("not what opens it")
    with pytest.raises(OpenError, match="does not take its password, and no other is known"):
        make("", password_file=str(two)).open(known)
    two.unlink()
    with pytest.raises(OpenError, match="has no password"):
        make("", password_file=str(two))


def test_a_server_that_only_appends_keeps_old_keys_which_are_remembered_until_they_are_gone(
    make: Make, tmp_path: Path
) -> None:
    known = made(make, tmp_path)
    gone = []
    for before, password in ((OLD, NEW), (NEW, NEXT)):
        gone.append(known.key)
        in_place(tmp_path, before)
        _done, known = make(password, append_only=True).open(known)
        in_place(tmp_path, password)
        done, known = make(password, append_only=True).retire(known)
        assert (done, known.kept) == ("password_kept", tuple(gone))
    assert make(NEXT, append_only=True).open(known) == ("opened", known)
    # On the server.
    assert make(NEXT).new.run("key", "remove", gone[0]).rc == 0
    assert make(NEXT, append_only=True).open(known)[1].kept == (gone[1],)


def test_a_repository_that_was_there_is_not_made_anew(make: Make, tmp_path: Path) -> None:
    known = made(make, tmp_path)
    place = tmp_path / "repository"
    place.rename(tmp_path / "away")
    with pytest.raises(OpenError, match=r"not where it was .*mount its disk"):
        make().open(known)
    place.mkdir()
    with pytest.raises(OpenError, match="not where it was"):
        make().open(known)
    assert list(place.iterdir()) == [] and place.stat().st_uid == 0, "nothing was changed"
    make().open(Known())
    with pytest.raises(OpenError, match="another repository than before"):
        make().open(known)
    # It has moved.
    done, moved = make(url=str(tmp_path / "away")).open(known)
    assert (done, moved.id, moved.key) == ("opened", known.id, known.key)


def test_where_there_are_keys_and_no_config_nothing_is_made(make: Make, tmp_path: Path) -> None:
    made(make, tmp_path)
    (tmp_path / "repository/config").unlink()
    with pytest.raises(OpenError, match="has keys and no config"):
        make().open(Known())
    assert not (tmp_path / "repository/config").exists()


def test_another_user_of_the_units_is_given_the_repository_and_nothing_else(make: Make, tmp_path: Path) -> None:
    known = made(make, tmp_path)
    place = tmp_path / "repository"
    (place / "roots").write_text("x")
    (place / "link").symlink_to("/etc/passwd")
    os.chown(place / "link", pwd.getpwnam("nobody").pw_uid, -1, follow_symlinks=False)
    with pytest.raises(OpenError, match="belongs to another user than daemon"):
        make(user="daemon").open(Known())
    assert known.is_due(make(user="daemon").asked)
    _done, known = make(user="daemon").open(known)
    assert known.asked.owner == "daemon"
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
    known = Known(dataclasses.replace(opener.asked, owner="daemon"))
    with pytest.raises(OpenError, match="others than root and nobody can change .*/home. To do: `chown root:root`"):
        opener.open(known)
    assert not (theirs / "repository").exists()
    (theirs / "repository").symlink_to(tmp_path / target)
    with pytest.raises(OpenError, match="can change"):
        opener.open(known)
    os.chown(theirs, 0, 0)
    with pytest.raises(OpenError, match=f"leads through a link to .*{target}"):
        opener.open(known)
    assert {path.lstat().st_uid for path in tmp_path.rglob("*") if not path.is_symlink()} == {0}
    assert not (tmp_path / "new").exists()


def test_a_repository_may_lie_in_a_directory_of_the_user_of_the_units(make: Make, tmp_path: Path) -> None:
    (tmp_path / "srv").mkdir()
    shutil.chown(tmp_path / "srv", "nobody")
    assert make(url=str(tmp_path / "srv/ws1/ws1")).open(Known())[0] == "made"


def test_what_is_not_to_be_made_or_belongs_to_another_is_refused(make: Make, tmp_path: Path) -> None:
    with pytest.raises(OpenError, match="its `init` is false"):
        make(init=False).open(Known())
    (tmp_path / "repository/thesis").write_text("x")
    os.chown(tmp_path / "repository", 0, 0)
    with pytest.raises(OpenError, match="not empty and belongs to another user"):
        make().open(Known())
    assert os.listdir(tmp_path / "repository") == ["thesis"]


def test_a_server_that_does_not_answer_is_no_missing_repository(make: Make) -> None:
    opener = make(url="rest:http://127.0.0.1:9/x/")
    opener.new.run = lambda *words, **options: type(opener.new).run(opener.new, *words, **{**options, "timeout_s": 4})  # type: ignore[method-assign]
    with pytest.raises(OpenError, match="cannot be opened"):
        opener.open(Known())

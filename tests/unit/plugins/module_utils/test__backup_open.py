# SPDX-License-Identifier: GPL-3.0-or-later
"""A repository is made where there is none, opened where it is, and takes another password; with the real restic."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup_config import read_version
from ansible_collections.rigwright.workstation.plugins.module_utils._backup_open import Opener, OpenError
from ansible_collections.rigwright.workstation.plugins.module_utils._restic_run import probe

from tests.unit.backup_hosts import EACH_RESTIC

OLD, NEW = "correct horse battery", "another long password"
Make = Callable[..., Opener]


@pytest.fixture(params=EACH_RESTIC)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """An opener of the repository `disk` with a password; whoever has the lowest rights owns it."""
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    (tmp_path / "secrets").mkdir(mode=0o700)
    program = request.param()

    def opener(password: str = OLD, **changes: Any) -> Opener:
        entry = {"name": "disk", "url": str(tmp_path / "repository"), "password": password, **changes}
        (tmp_path / "scratch").mkdir(exist_ok=True)
        return Opener(
            entry,
            program,
            read_version(program),
            "nobody",
            str(tmp_path / "secrets"),
            str(tmp_path / "scratch"),
        )

    return opener


def in_place(tmp_path: Path, password: str) -> None:
    """The password as config_files has put it there."""
    (tmp_path / "secrets/disk.password").write_text(password + "\n")


def test_a_repository_is_made_for_the_user_of_the_units_and_opened_the_next_time(make: Make, tmp_path: Path) -> None:
    done, record = make().open({})
    assert done == "made" and record["id"]
    owner = pwd.getpwnam("nobody").pw_uid
    assert {path.stat().st_uid for path in (tmp_path / "repository").rglob("*")} == {owner}
    assert make().open(record) == ("opened", record)


def test_a_wrong_password_is_never_a_reason_to_make_it_anew(make: Make, tmp_path: Path) -> None:
    make().open({})
    with pytest.raises(OpenError, match="does not take its password, and no other is known"):
        make(NEW).open({})
    in_place(tmp_path, "and this one is wrong too")
    with pytest.raises(OpenError, match="neither the new password nor the one in place"):
        make(NEW).open({})
    assert len(list((tmp_path / "repository/keys").iterdir())) == 1
    assert make().open({})[0] == "opened"


def test_a_new_password_comes_beside_the_old_one_which_goes_when_the_file_has_changed(
    make: Make, tmp_path: Path
) -> None:
    _done, record = make().open({})
    in_place(tmp_path, OLD)
    done, record = make(NEW).open(record)
    assert done == "password_added" and record["retire"]
    # A run that ends here locks nobody out: both open it, and the old one is not removed while it stands in the file.
    assert [probe(make(word).new)[0].kind for word in (OLD, NEW)] == ["ok", "ok"]
    assert make(NEW).retire(record) == ("opened", record)
    assert make(NEW).open(record) == ("password_added", record)
    # And one that ended before anybody had written that down is found out.
    forgotten = {"place": record["place"], "id": record["id"]}
    assert make(NEW).open(forgotten) == ("password_added", record)

    in_place(tmp_path, NEW)
    done, record = make(NEW).retire(record)
    assert done == "password_retired" and "retire" not in record
    assert [probe(make(word).new)[0].kind for word in (OLD, NEW)] == ["wrong_password", "ok"]


def test_a_server_that_only_appends_keeps_the_old_key_and_that_is_remembered(make: Make, tmp_path: Path) -> None:
    _done, record = make().open({})
    in_place(tmp_path, OLD)
    _done, record = make(NEW, append_only=True).open(record)
    key = record["retire"]
    in_place(tmp_path, NEW)
    done, record = make(NEW, append_only=True).retire(record)
    assert (done, record["kept"]) == ("password_kept", key)


def test_what_is_not_to_be_made_or_belongs_to_another_is_refused(make: Make, tmp_path: Path) -> None:
    with pytest.raises(OpenError, match="its `init` is false"):
        make(init=False).open({})
    (tmp_path / "repository/thesis").write_text("x")
    os.chown(tmp_path / "repository", 0, 0)
    with pytest.raises(OpenError, match="not empty and belongs to another user"):
        make().open({})
    assert json.dumps(sorted(os.listdir(tmp_path / "repository"))) == '["thesis"]'


def test_a_server_that_does_not_answer_is_no_missing_repository(make: Make) -> None:
    opener = make(url="rest:http://127.0.0.1:9/x/")
    opener.new.run = lambda *words, **options: type(opener.new).run(opener.new, *words, **{**options, "timeout_s": 4})  # type: ignore[method-assign]
    with pytest.raises(OpenError, match="cannot be opened"):
        opener.open({})

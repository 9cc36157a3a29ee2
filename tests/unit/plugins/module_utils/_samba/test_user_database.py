# SPDX-License-Identifier: GPL-3.0-or-later
"""The database of a fake pdbedit: how passwords are passed, and what is on record after an interrupted run."""

from __future__ import annotations

import dataclasses
import json
import pwd
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import user_database
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import users as users_of_samba
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.nt_hash import nt_hash
from ansible_collections.rigwright.workstation.plugins.modules import samba_users

Run = Callable[..., dict[str, Any]]
UIDS = {"root": 0, "alice": 1001, "bob": 1002}


class Samba:
    """Samba's database behind pdbedit, smbpasswd and its Python binding."""

    def __init__(self, root: Path) -> None:
        self.record = root / "users.json"
        self.users: dict[str, list[Any]] = {}
        self.commands: list[list[str]] = []
        self.inputs: list[str] = []
        self.failing = ""
        self.reads = 0

    def recorded(self) -> Any:
        return json.loads(self.record.read_text()) if self.record.exists() else None

    def run(self, command: list[str], data: str | None) -> tuple[int, str, str]:
        name = command[-1]
        if command[1:] == ["-L", "-w"]:
            self.reads += 1
            return 0, "".join(self._line(user) for user in self.users), ""
        self.commands.append(command)
        self.inputs.append(data or "")
        if self.failing in command:
            raise OSError("the run is cut short")
        if "-x" in command:
            return (0, "", "") if self.users.pop(name, None) else (1, "", "no such user")
        if "-a" in command:
            first, second = (data or "").splitlines()
            assert first == second
            self.users[name] = [nt_hash(first), True]
        elif "-c" in command:
            for user, digest in json.loads(data or "").items():
                self.users[user][0] = digest.upper()
        else:
            self.users[name][1] = command[1] == "-e"
        return 0, "", ""

    def _line(self, name: str) -> str:
        digest, enabled = self.users[name]
        return f"{name}:1001:{'X' * 32}:{digest}:[{'U' if enabled else 'DU'}          ]:LCT-6B031CC5:\n"


@pytest.fixture
def samba(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Samba:
    found = Samba(tmp_path / "rigwright_samba")
    program = tmp_path / "pdbedit"
    program.touch()

    def entry_of(name: str) -> SimpleNamespace:
        return SimpleNamespace(pw_uid=UIDS[name])

    monkeypatch.setattr(user_database, "RECORD", str(found.record))
    monkeypatch.setattr(user_database, "PDBEDIT", str(program))
    monkeypatch.setattr(pwd, "getpwnam", entry_of)
    monkeypatch.setattr(
        AnsibleModule, "run_command", lambda _self, command, data=None, **_options: found.run(command, data)
    )
    return found


@pytest.fixture
def users(run_module: Run, samba: Samba) -> Run:
    def run(*listed: dict[str, Any], **params: Any) -> dict[str, Any]:
        return run_module(samba_users, users=list(listed), **params)

    return run


ALICE = {"name": "alice", "password": 'it\'s %u "quoted" ü'}


def test_password_is_passed_by_standard_input_only(users: Run, samba: Samba) -> None:
    result = users(ALICE)
    assert result["changes"] == ["alice: added"]
    assert samba.inputs == [f"{ALICE['password']}\n" * 2]
    assert ALICE["password"] not in str(samba.commands) + json.dumps(result, ensure_ascii=False)
    assert samba.recorded() == ["alice"]


def test_second_run_changes_only_a_new_password(users: Run, samba: Samba) -> None:
    users(ALICE)
    samba.commands.clear()
    assert not users(ALICE)["changed"]
    assert samba.commands == []
    assert users({**ALICE, "password": "other"})["changes"] == ["alice: password changed"]
    assert samba.users["alice"][0] == nt_hash("other")


def test_a_hash_does_for_a_password_and_is_no_argument_either(users: Run, samba: Samba) -> None:
    digest = nt_hash("secret")
    result = users({"name": "alice", "nt_hash": digest.lower()})
    assert result["changes"] == ["alice: added"]
    assert samba.users["alice"] == [digest, True]
    assert digest.lower() not in str(samba.commands).lower()
    assert not users({"name": "alice", "nt_hash": digest})["changed"]


BOB = {"name": "bob", "password": "correct-horse", "enabled": False}


def planned(samba: Samba, *listed: dict[str, Any]) -> dict[str, Any]:
    """Plan as the role does: what is in the database and on record now."""
    lines = "".join(samba._line(user) for user in samba.users)
    found = users_of_samba.plan(users_of_samba.parse_accounts(lines), listed, samba.recorded() or [])
    return dataclasses.asdict(found)


def test_what_was_planned_is_done_and_looked_at_once(users: Run, samba: Samba) -> None:
    assert users(ALICE, BOB, plan=planned(samba, ALICE, BOB))["changes"] == [
        "alice: added",
        "bob: added",
        "bob: disabled",
    ]
    assert (samba.reads, samba.recorded()) == (1, ["alice", "bob"])
    new = [{**ALICE, "password": "other"}]
    assert users(*new, plan=planned(samba, *new))["changes"] == ["bob: removed", "alice: password changed"]
    assert (samba.reads, samba.recorded()) == (2, ["alice"])


def test_what_has_changed_since_the_plan_is_put_right(users: Run, samba: Samba) -> None:
    users(ALICE)
    plan = planned(samba, ALICE, BOB)
    samba.users["alice"] = [nt_hash("by hand"), False]
    users(ALICE, BOB, plan=plan)
    assert samba.users["alice"] == [nt_hash(str(ALICE["password"])), True]


def test_users_who_are_added_after_the_plan_are_on_record(users: Run, samba: Samba) -> None:
    """The plan has read alice in another database, or before an administrator removed her."""
    samba.users["alice"] = [nt_hash(str(ALICE["password"])), True]
    plan = planned(samba, ALICE, BOB)
    samba.users.clear()
    assert "alice: added" in users(ALICE, BOB, plan=plan)["changes"]
    assert samba.recorded() == ["alice", "bob"]
    assert users()["changes"] == ["alice: removed", "bob: removed"]


def test_a_user_who_is_gone_since_the_plan_ends_no_run(users: Run, samba: Samba) -> None:
    users(ALICE, BOB)
    plan = planned(samba, BOB)
    del samba.users["alice"]
    users(BOB, plan=plan)
    assert (list(samba.users), samba.recorded()) == (["bob"], ["bob"])


def test_another_record_than_the_planned_one_is_planned_again(users: Run, samba: Samba) -> None:
    users(ALICE, BOB)
    plan = planned(samba, ALICE)
    samba.record.write_text('["alice"]')
    assert users(ALICE, plan=plan)["changes"] == [], "bob is no longer the role's own"
    assert "bob" in samba.users


def test_check_mode_reports_a_difference_and_changes_nothing(users: Run, samba: Samba) -> None:
    planned = users(ALICE, check=True)
    assert (samba.commands, samba.recorded()) == ([], None)
    assert planned["diff"]["after"] == "alice: added\n"
    assert users(ALICE)["changes"] == planned["changes"]


def test_a_disabled_user_stays_disabled_with_a_new_password(users: Run, samba: Samba) -> None:
    users({**ALICE, "enabled": False})
    assert samba.users["alice"][1] is False
    users({**ALICE, "enabled": False, "password": "other"})
    assert samba.users["alice"] == [nt_hash("other"), False]
    assert users(ALICE)["changes"] == ["alice: password changed", "alice: enabled"]


def test_unmanaged_user_stays_when_others_are_removed(users: Run, samba: Samba) -> None:
    samba.users["eve"] = [nt_hash("x"), True]
    users(ALICE)
    assert users()["changes"] == ["alice: removed"]
    assert (list(samba.users), samba.recorded()) == (["eve"], None)
    assert users({"name": "eve", "state": "absent"})["changes"] == ["eve: removed"]


def test_a_password_that_was_changed_by_hand_is_put_right(users: Run, samba: Samba) -> None:
    users(ALICE)
    samba.users["alice"] = [nt_hash("by hand"), False]
    assert users(ALICE)["changes"] == ["alice: password changed", "alice: enabled"]
    assert samba.users["alice"] == [nt_hash(str(ALICE["password"])), True]


def test_interrupted_run_leaves_new_users_on_record(users: Run, samba: Samba) -> None:
    samba.failing = "-a"
    with pytest.raises(OSError, match="cut short"):
        users(ALICE)
    assert samba.recorded() == ["alice"]
    samba.failing = ""
    assert users(ALICE)["changes"] == ["alice: added"]
    assert users()["changes"] == ["alice: removed"]


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ({"name": "root", "password": "x"}, "names root, whom Samba would let write"),
        ({"name": "alice"}, "has no password for alice"),
        ({"name": "alice", "password": "x\n"}, "line break"),
        ({"name": "eve", "password": "x"}, "no user of this host"),
    ],
)
def test_a_list_that_cannot_be_is_refused_and_nothing_changes(
    users: Run, samba: Samba, listed: dict[str, Any], message: str
) -> None:
    result = users(listed)
    assert result["failed"] and message in result["msg"]
    assert (samba.commands, samba.recorded()) == ([], None)


@pytest.mark.parametrize("record", ["{", '{"a": 1}', "[1]"])
def test_a_damaged_record_is_refused(users: Run, samba: Samba, record: str) -> None:
    samba.record.parent.mkdir()
    samba.record.write_text(record)
    assert "is damaged" in users(ALICE)["msg"]
    assert samba.commands == []


def test_missing_samba_fails_a_run_but_not_check_mode(
    users: Run, samba: Samba, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_database, "PDBEDIT", "/nonexistent/pdbedit")
    assert users(ALICE, check=True)["changes"] == ["alice: added"]
    assert "install samba first" in users(ALICE)["msg"]
    assert not users()["changed"]

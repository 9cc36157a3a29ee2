# SPDX-License-Identifier: GPL-3.0-or-later
"""Which users are added, changed and removed, and which lists of users are refused."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.nt_hash import EMPTY, nt_hash
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.users import (
    Account,
    faults,
    parse_accounts,
    plan,
)

# Recorded from `pdbedit -L -w` of Samba 4.17; bob has been deleted from the host, carol is disabled.
RECORDED = """\
al:1001:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:B20C5F3066E09F324C81B045AA57938E:[U          ]:LCT-6B031CC5:
bob:4294967295:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:A2317F935FB7F5DCDBEFB2829971208A:[U          ]:LCT-6B031CC8:
carol:1002:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:A2317F935FB7F5DCDBEFB2829971208A:[DU         ]:LCT-6B031CC8:
"""
UIDS = {"root": 0, "alice": 1000, "bob": 1001}


def alice(**more: Any) -> dict[str, Any]:
    return {"name": "alice", "password": "correct", **more}


def accounts(word: str = "correct", enabled: bool = True) -> dict[str, Account]:
    return {"alice": Account(nt_hash(word), enabled, 1000)}


def test_what_pdbedit_tells_is_read_with_who_is_gone_and_who_is_disabled() -> None:
    found = parse_accounts(RECORDED)
    assert found["al"] == Account("B20C5F3066E09F324C81B045AA57938E", True, 1001)
    assert (found["bob"].uid, found["bob"].enabled) == (-1, True)
    assert (found["carol"].uid, found["carol"].enabled) == (1002, False)
    assert parse_accounts("Failed to open the database\n") == {}


def test_a_password_that_has_not_changed_is_left_alone() -> None:
    assert plan(accounts(), [alice()], ["alice"]).changes == []
    by_hash = {"name": "alice", "nt_hash": nt_hash("correct").lower()}
    assert plan(accounts(), [by_hash], ["alice"]).changes == []


def test_one_that_has_changed_is_set_and_said_without_it() -> None:
    assert plan(accounts("other"), [alice()], ["alice"]).changes == ["alice: password changed"]


@pytest.mark.parametrize(
    ("found", "asked", "changes"),
    [
        (True, False, ["alice: disabled"]),
        (False, True, ["alice: enabled"]),
        (False, False, []),
        (True, True, []),
    ],
)
def test_a_user_is_let_in_and_shut_out(found: bool, asked: bool, changes: list[str]) -> None:
    assert plan(accounts(enabled=found), [alice(enabled=asked)], ["alice"]).changes == changes


def test_a_new_user_who_is_disabled_is_added_and_shut_out_at_once() -> None:
    made = plan({}, [alice(enabled=False)], [])
    assert (made.changes, made.record) == (["alice: added", "alice: disabled"], ("alice",))


def test_who_comes_off_the_list_is_removed_and_whom_others_made_stays() -> None:
    found = {"alice": Account("", True), "bob": Account("", True), "carol": Account("", True)}
    made = plan(found, [], ["alice", "gone"])
    assert (made.remove, made.record) == (("alice",), ())
    assert plan(found, [{"name": "bob", "state": "absent"}], []).remove == ("bob",)


def test_a_user_whom_somebody_else_made_is_taken_over_and_not_taken_away() -> None:
    made = plan(accounts("old"), [alice()], [])
    assert (made.password, made.record) == (("alice",), ())
    assert plan(accounts(), [], made.record).changes == []


def test_capitals_make_no_other_user() -> None:
    made = plan(accounts(), [{**alice(), "name": "Alice"}], ["alice"])
    assert made.changes == []
    assert plan(accounts(), [{"name": "ALICE", "state": "absent"}], []).remove == ("alice",)


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ({"name": "root", "password": "x"}, "lets root in"),
        ({"name": "alice"}, "no password for alice"),
        ({"name": "alice", "password": ""}, "no password for alice"),
        ({"name": "alice", "password": None, "nt_hash": None}, "no password for alice"),
        ({"name": "alice", "password": "x", "nt_hash": "0" * 32}, "both `password` and `nt_hash`"),
        ({"name": "alice", "password": "line\n"}, "line break"),
        ({"name": "alice", "password": "a\0b"}, "control character"),
        ({"name": "alice", "password": "ü" * 128}, "more than 254 bytes"),
        ({"name": "alice", "nt_hash": "xyz"}, "that is none"),
        ({"name": "alice", "nt_hash": EMPTY}, "of the empty password"),
        ({"name": "nobody-here", "password": "x"}, "who is no user of this host"),
        ({"name": "-x", "password": "x"}, "no user name"),
        ({"name": "a b", "password": "x"}, "no user name"),
        ({"name": "alice:0", "password": "x"}, "no user name"),
    ],
)
def test_a_user_who_cannot_be_is_refused_with_what_to_do(user: dict[str, Any], words: str) -> None:
    (found,) = faults([user], UIDS)
    assert (found["ok"], found["variable"]) == (False, "samba_users")
    assert words in found["problem"] and found["remedy"]


def test_a_user_twice_is_refused_whatever_the_capitals() -> None:
    found = list(faults([alice(), {**alice(), "name": "ALICE", "state": "absent"}], UIDS))
    assert "names a user twice: ALICE, alice" in found[0]["problem"]


@pytest.mark.parametrize("password", ["'", '"', "%u", "$(id)", "`id`", "\\", " ", "ü€𝄞", "p" * 254])
def test_any_password_that_can_be_typed_passes(password: str) -> None:
    assert list(faults([alice(password=password)], UIDS)) == []


def test_who_is_to_go_needs_neither_a_password_nor_a_user_of_the_host() -> None:
    assert list(faults([{"name": "gone", "state": "absent"}], UIDS)) == []


def test_no_fault_and_no_change_shows_a_password() -> None:
    secret = "correct-horse\n"
    said = str(list(faults([alice(password=secret)], UIDS))) + str(plan({}, [alice(password=secret)], []).changes)
    assert "correct-horse" not in said


@pytest.mark.parametrize("password", [12345678, True, 1.5, ["a"]])
def test_a_password_that_yaml_does_not_take_for_text_is_refused(password: Any) -> None:
    """`password: 012` is ten, and `password: yes` is True: nobody would know what to type."""
    wrong = [one["problem"] for one in faults([{"name": "alice", "password": password}], {"alice": 1000})]
    assert len(wrong) == 1
    assert "that YAML takes for a number" in wrong[0]
    assert str(password) not in wrong[0]

# SPDX-License-Identifier: GPL-3.0-or-later
"""Which users are added, changed and removed, and which lists of users are refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.nt_hash import EMPTY, nt_hash
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.users import (
    Account,
    Plan,
    parse_accounts,
    plan,
    problems_of_request,
)
from hypothesis import given
from hypothesis import strategies as st

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


def test_accounts_of_pdbedit_are_parsed() -> None:
    found = parse_accounts(RECORDED)
    assert found["al"] == Account("B20C5F3066E09F324C81B045AA57938E", True, 1001)
    assert (found["bob"].uid, found["bob"].enabled) == (-1, True)
    assert (found["carol"].uid, found["carol"].enabled) == (1002, False)
    assert parse_accounts("Failed to open the database\n") == {}


def test_an_unchanged_password_is_not_set() -> None:
    assert plan(accounts(), [alice()], ["alice"]).changes == []
    by_hash = {"name": "alice", "nt_hash": nt_hash("correct").lower()}
    assert plan(accounts(), [by_hash], ["alice"]).changes == []


def test_changed_password_is_set_and_not_in_the_output() -> None:
    assert plan(accounts("other"), [alice()], ["alice"]).changes == ["alice: password changed"]


@pytest.mark.parametrize(
    ("found", "options", "changes"),
    [
        (True, False, ["alice: disabled"]),
        (False, True, ["alice: enabled"]),
        (False, False, []),
        (True, True, []),
    ],
)
def test_a_user_is_enabled_and_disabled(found: bool, options: bool, changes: list[str]) -> None:
    assert plan(accounts(enabled=found), [alice(enabled=options)], ["alice"]).changes == changes


def test_new_disabled_user_is_added_and_disabled() -> None:
    result = plan({}, [alice(enabled=False)], [])
    assert (result.changes, result.record) == (["alice: added", "alice: disabled"], ("alice",))


def test_unlisted_users_of_the_role_are_removed() -> None:
    found = {"alice": Account("", True), "bob": Account("", True), "carol": Account("", True)}
    result = plan(found, [], ["alice", "gone"])
    assert (result.remove, result.record) == (("alice",), ())
    assert plan(found, [{"name": "bob", "state": "absent"}], []).remove == ("bob",)


def test_unmanaged_user_is_updated_and_never_removed() -> None:
    result = plan(accounts("old"), [alice()], [])
    assert (result.password, result.record) == (("alice",), ())
    assert plan(accounts(), [], result.record).changes == []


def test_capitals_make_no_other_user() -> None:
    result = plan(accounts(), [{**alice(), "name": "Alice"}], ["alice"])
    assert result.changes == []
    assert plan(accounts(), [{"name": "ALICE", "state": "absent"}], []).remove == ("alice",)


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ({"name": "root", "password": "x"}, "names root, whom Samba would let write"),
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
def test_an_invalid_user_is_refused_with_a_remedy(user: dict[str, Any], expected: str) -> None:
    (found,) = problems_of_request([user], UIDS)
    assert (found["ok"], found["variable"]) == (False, "samba_users")
    assert expected in found["problem"] and found["remedy"]


def test_a_user_twice_is_refused_whatever_the_capitals() -> None:
    found = list(problems_of_request([alice(), {**alice(), "name": "ALICE", "state": "absent"}], UIDS))
    assert "names a user twice: ALICE, alice" in found[0]["problem"]


@pytest.mark.parametrize("password", ["'", '"', "%u", "$(id)", "`id`", "\\", " ", "ü€𝄞", "p" * 254])
def test_any_password_that_can_be_typed_passes(password: str) -> None:
    assert list(problems_of_request([alice(password=password)], UIDS)) == []


def test_absent_user_needs_no_password_and_no_host_user() -> None:
    assert list(problems_of_request([{"name": "gone", "state": "absent"}], UIDS)) == []


def test_problems_and_changes_contain_no_password() -> None:
    secret = "correct-horse\n"
    text = str(list(problems_of_request([alice(password=secret)], UIDS))) + str(
        plan({}, [alice(password=secret)], []).changes
    )
    assert "correct-horse" not in text


@pytest.mark.parametrize("password", [12345678, True, 1.5, ["a"]])
def test_a_password_that_yaml_does_not_take_for_text_is_refused(password: Any) -> None:
    """Refuse `password: 012`, which is ten, and `password: yes`, which is True: nobody would know what to type."""
    wrong = [row["problem"] for row in problems_of_request([{"name": "alice", "password": password}], {"alice": 1000})]
    assert len(wrong) == 1
    assert "that YAML takes for a number" in wrong[0]
    assert str(password) not in wrong[0]


WANTED = st.builds(
    lambda name, word, enabled, present: {
        "name": name,
        "password": word,
        "enabled": enabled,
        "state": "present" if present else "absent",
    },
    st.sampled_from(["alice", "bob", "carol"]),
    st.sampled_from(["one", "two"]),
    st.booleans(),
    st.booleans(),
)
ACCOUNTS = st.dictionaries(
    st.sampled_from(["alice", "bob", "dave"]), st.builds(Account, st.sampled_from([nt_hash("one"), ""]), st.booleans())
)


@given(
    ACCOUNTS,
    st.lists(WANTED, unique_by=lambda user: user["name"]),
    st.lists(st.sampled_from(["alice", "dave"]), unique=True),
)
def test_nothing_is_left_after_a_plan_is_carried_out(
    found: dict[str, Account], listed: list[dict[str, Any]], record: list[str]
) -> None:
    planned = plan(found, listed, record)
    assert Plan.of(dataclasses.asdict(planned)) == planned
    passwords = {user["name"]: user["password"] for user in listed}
    after = {name: account for name, account in found.items() if name not in planned.remove}
    # A new password enables a user.
    after.update({name: Account(nt_hash(passwords[name]), True) for name in (*planned.add, *planned.password)})
    after.update({name: after[name]._replace(enabled=False) for name in planned.disable})
    after.update({name: after[name]._replace(enabled=True) for name in planned.enable})
    assert not plan(after, listed, planned.record).is_due

# SPDX-License-Identifier: GPL-3.0-or-later
"""Who should belong to which group, and the commands that see to it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._system.groups import (
    commands,
    find_problems,
    named_users,
    plan,
)


def group(name: str, *members: str, append: bool = True, state: str = "present") -> Any:
    return {"name": name, "members": list(members), "append": append, "state": state}


@pytest.mark.parametrize(
    ("current", "requested", "wanted"),
    [
        (None, group("lab"), []),
        (None, group("lab", "ada", "alan"), ["ada", "alan"]),
        (["ada"], group("lab"), ["ada"]),
        (["ada"], group("lab", "alan", "ada"), ["ada", "alan"]),
        (["ada"], group("lab", "alan", append=False), ["alan"]),
        (["ada"], group("lab", append=False), []),
        (["ada"], group("lab", "ada", state="absent"), None),
        (None, group("lab", state="absent"), None),
    ],
)
def test_users_who_should_be_members(current: list[str] | None, requested: Any, wanted: list[str] | None) -> None:
    assert plan({"lab": current}, [requested]) == {"lab": wanted}


@pytest.mark.parametrize(
    ("current", "wanted", "run"),
    [
        (None, [], ["groupadd --system lab"]),
        (None, ["ada", "alan"], ["groupadd --system lab", "gpasswd --members ada,alan lab"]),
        (["ada"], ["ada", "alan"], ["gpasswd --members ada,alan lab"]),
        (["ada"], ["ada"], []),
        (["ada"], [], ["gpasswd --members  lab"]),
        (["ada"], None, ["groupdel lab"]),
        (None, None, []),
    ],
)
def test_the_commands(current: list[str] | None, wanted: list[str] | None, run: list[str]) -> None:
    assert [" ".join(line) for line in commands({"lab": current}, {"lab": wanted}, system={"lab"})] == run


def test_a_group_for_people_gets_an_ordinary_id() -> None:
    assert commands({"lab": None}, {"lab": []}, system=set()) == [["groupadd", "lab"]]


def test_groups_are_made_first_and_removed_last() -> None:
    current: dict[str, list[str] | None] = {"old": [], "a": ["ada"], "b": None}
    wanted: dict[str, list[str] | None] = {"old": None, "a": [], "b": []}
    assert [line[0] for line in commands(current, wanted, system=set())] == ["groupadd", "gpasswd", "groupdel"]


@pytest.mark.parametrize("name", ["", "Lab", "1lab", "lab users", "-r", "a" * 33, "a:b", "lab\n"])
def test_bad_name_is_a_problem(name: str) -> None:
    assert len(find_problems([group(name)])) == 1


def test_group_listed_twice_is_a_problem() -> None:
    assert find_problems([group("lab"), group("docker"), group("lab", "ada")]) == ["lab is listed twice"]


def test_good_groups_have_no_problem() -> None:
    assert find_problems([group("lab"), group("ssh-users"), group("_x1")]) == []


def test_users_count_once_and_not_for_a_group_that_goes() -> None:
    requested = [group("lab", "alan", "ada"), group("docker", "ada"), group("old", "eve", state="absent")]
    assert named_users(requested) == ["ada", "alan"]

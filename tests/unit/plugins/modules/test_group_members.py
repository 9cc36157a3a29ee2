# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups of a host whose user database is this test's."""

from __future__ import annotations

import grp
import pwd
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.modules import group_members

Run = Callable[..., dict[str, Any]]

USERS = {"ada": 1000, "alan": 1001}
GROUPS = {"ada": (1000, []), "alan": (1001, []), "docker": (990, ["ada"])}
WELL = (0, "", "")


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fake a host with the users ada and alan, and a group docker with ada in it."""
    users = {name: SimpleNamespace(pw_name=name, pw_gid=gid) for name, gid in USERS.items()}
    groups = {name: SimpleNamespace(gr_gid=gid, gr_mem=members) for name, (gid, members) in GROUPS.items()}
    monkeypatch.setattr(pwd, "getpwnam", users.__getitem__)
    monkeypatch.setattr(pwd, "getpwall", lambda: list(users.values()))
    monkeypatch.setattr(grp, "getgrnam", groups.__getitem__)


def test_several_groups_in_one_run(run_module: Run) -> None:
    result = run_module(
        group_members,
        commands={
            "groupadd --system ssh-users": WELL,
            "gpasswd --members ada,alan ssh-users": WELL,
            "gpasswd --members ada,alan docker": WELL,
        },
        groups=[
            {"name": "ssh-users", "system": True, "members": ["alan", "ada"]},
            {"name": "docker", "members": ["alan"]},
        ],
    )
    assert result["changed"] is True
    assert result["groups"] == {"ssh-users": ["ada", "alan"], "docker": ["ada", "alan"]}
    assert result["diff"]["before"] == {"ssh-users": None, "docker": ["ada"]}


@pytest.mark.parametrize(
    "group",
    [
        {"name": "docker", "members": ["ada"]},
        {"name": "docker", "members": ["ada"], "append": False},
        {"name": "docker"},
        {"name": "none", "state": "absent"},
    ],
)
def test_existing_members_run_no_command(run_module: Run, group: dict[str, Any]) -> None:
    assert run_module(group_members, commands={}, groups=[group])["changed"] is False


def test_check_mode_predicts_and_runs_nothing(run_module: Run) -> None:
    groups = [{"name": "lab", "members": ["ada"]}, {"name": "docker", "state": "absent"}]
    result = run_module(group_members, check=True, commands={}, groups=groups)
    assert (result["changed"], result["groups"]) == (True, {"lab": ["ada"], "docker": None})


def test_all_unknown_members_are_named_and_nothing_is_run(run_module: Run) -> None:
    groups = [{"name": "lab", "members": ["ada", "eve"]}, {"name": "docker", "members": ["bob"]}]
    result = run_module(group_members, commands={}, groups=groups)
    assert result["failed"] is True
    assert result["msg"].startswith("There is no user bob, eve. Make them, or set `groups`")


def test_in_check_mode_an_earlier_task_may_make_a_member(run_module: Run) -> None:
    result = run_module(group_members, check=True, commands={}, groups=[{"name": "lab", "members": ["eve"]}])
    assert result["changed"] is True
    assert "There is no user eve: the run is refused unless" in str(result["warnings"])


def test_a_primary_group_is_not_removed(run_module: Run) -> None:
    groups = [{"name": "lab", "members": ["ada"]}, {"name": "alan", "state": "absent"}]
    result = run_module(group_members, commands={}, groups=groups)
    assert result["failed"] is True
    assert "alan is the primary group of alan" in result["msg"]


def test_a_bad_name_is_refused(run_module: Run) -> None:
    result = run_module(group_members, commands={}, groups=[{"name": "Lab"}, {"name": "docker"}, {"name": "docker"}])
    assert "'Lab' is no name for a group" in result["msg"]
    assert "docker is listed twice" in result["msg"]


def test_a_command_that_fails_is_shown(run_module: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda self, name, required: "/bin/false")
    result = run_module(group_members, groups=[{"name": "lab"}])
    assert result["failed"] is True
    assert result["rc"] == 1

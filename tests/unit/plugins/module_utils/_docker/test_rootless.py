from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import rootless
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.rootless import User

RANGES = {"--add-subuids": "alice:100000:65536\n", "--add-subgids": "alice:100000:65536\n"}
USER = ["timeout", "--kill-after=5", "300", "runuser", "-u", "alice", "--", "env", "XDG_RUNTIME_DIR=/run/user/1001"]
READY = User(1001, lingers=True, active=True)


def plan(
    users: dict[str, User], wanted: list[str], record: dict[str, Any] | None = None, **others: Any
) -> rootless.Plan:
    return rootless.plan(
        users,
        wanted,
        record or {},
        others.get("ranges", RANGES),
        allow_disruption=others.get("allow_disruption", False),
    )


def test_complete_user_needs_no_change():
    steps = plan({"alice": READY}, ["alice"], {"alice": {}})
    assert (steps.commands, steps.changes, steps.waiting) == ([], [], {})


def test_new_user_gets_ranges_manager_and_docker():
    steps = plan({"alice": User(1001)}, ["alice"])
    assert steps.commands == [
        ["loginctl", "enable-linger", "alice"],
        ["systemctl", "start", "user@1001.service"],
        *([*USER, "systemctl", "--user", *command] for command in (["daemon-reload"], ["start", "docker.service"])),
    ]
    assert steps.record == {"alice": {"linger": True}}


@pytest.mark.parametrize("owner", ["bob", "1002"])
def test_existing_range_is_enough(owner: str):
    ranges = dict.fromkeys(RANGES, f"{owner}:165536:65536\n")
    assert plan({"bob": User(1002, lingers=True, active=True)}, ["bob"], ranges=ranges).commands == []


def test_new_ranges_do_not_overlap_existing_ones():
    users = {name: User(uid, lingers=True, active=True) for name, uid in (("bob", 1002), ("carol", 1003))}
    steps = plan(users, ["bob", "carol"], ranges={"--add-subuids": "alice:100000:65536\n", "--add-subgids": "# none\n"})
    assert steps.commands == [
        ["usermod", "--add-subuids", "165536-231071", "bob"],
        ["usermod", "--add-subgids", "100000-165535", "bob"],
        ["usermod", "--add-subuids", "231072-296607", "carol"],
        ["usermod", "--add-subgids", "165536-231071", "carol"],
    ]


def test_range_at_the_end_of_all_ids_leaves_the_first_free_one():
    steps = plan({"bob": User(1002, True, True)}, ["bob"], ranges=dict.fromkeys(RANGES, "carol:4294900000:65536\n"))
    assert steps.record["bob"] == dict.fromkeys(RANGES, "100000-165535")


def test_a_range_that_is_too_small_for_an_image_does_not_count():
    steps = plan({"alice": READY}, ["alice"], ranges=dict.fromkeys(RANGES, "alice:100000:1000\n"))
    assert steps.record["alice"] == {"--add-subuids": "101000-166535", "--add-subgids": "101000-166535"}


def test_new_options_restart_a_docker_without_containers():
    steps = plan({"alice": User(1001, lingers=True, active=True, older=True)}, ["alice"])
    assert steps.changes == ["alice: docker restarted"]


def test_containers_keep_an_older_docker_unless_they_may_end():
    users = {"alice": User(1001, lingers=True, active=True, older=True, containers=("train",))}
    assert plan(users, ["alice"]).waiting == {"alice": ("train",)}
    assert plan(users, ["alice"]).commands == []
    assert plan(users, ["alice"], allow_disruption=True).changes == ["alice: docker restarted"]


def test_removed_user_loses_only_what_the_role_added():
    record = {"alice": {"--add-subuids": "165536-231071"}, "bob": {"linger": True}}
    steps = plan({"alice": READY, "bob": User(1002, lingers=True)}, [], record)
    assert [command[-3:] for command in steps.commands] == [
        ["--user", "stop", "docker.service"],
        ["--del-subuids", "165536-231071", "alice"],
        ["loginctl", "disable-linger", "bob"],
    ]
    assert steps.record == {}


def test_removed_user_keeps_running_containers():
    users = {"alice": User(1001, lingers=True, active=True, containers=("train",))}
    steps = plan(users, [], {"alice": {"linger": True}})
    assert steps.waiting == {"alice": ("train",)}
    assert (steps.commands, steps.record) == ([], {"alice": {"linger": True}})


def test_deleted_user_is_forgotten():
    assert plan({}, [], {"alice": {"linger": True}}).record == {}

# SPDX-License-Identifier: GPL-3.0-or-later
"""From what lives to what is done. Each case is a daemon, what lives, and the steps."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import files
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.plan import Live, Server, Steps, decide
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.request import Daemon

A = "GPU-aaaaaaaa"
TEAM = Daemon("team", devices=(A,), percentage=50, pipe="/run/m/team", log="/log/team")
FILES = {"/etc/m/team.sh": "push 50"}
RUNS = Live(
    4000,
    "none:team",
    0,
    ("-d",),
    {**files.environment(TEAM, "none"), "PATH": "/bin"},
    servers=(Server(4001, "ACTIVE"),),
)
BUSY = dataclasses.replace(RUNS, servers=(Server(4001, "ACTIVE", clients=(5001,)),))
STALE = ("active_thread_percentage",)


def steps(
    live: Live, when_clients: str = "fail", daemon: Daemon = TEAM, on_disk: Any = None, manager: str = "none"
) -> Steps:
    return decide(daemon, live, FILES, FILES if on_disk is None else on_disk, when_clients, manager, 0)


def in_state(state: str) -> Daemon:
    return Daemon("team", state=state, pipe="/run/m/team", log="/log/team")


def test_nothing_lives_and_it_is_started() -> None:
    made = steps(Live(), on_disk={"/etc/m/team.sh": None})
    assert (made.verbs, made.files, made.changed) == (["start"], FILES, True)


def test_what_is_as_declared_is_left_alone() -> None:
    assert not steps(RUNS).changed
    assert not steps(BUSY).changed


def test_a_daemon_of_somebody_else_is_left_alone() -> None:
    foreign = Live(4000, "", 0, ("-d",), {})
    made = steps(foreign)
    assert not made.changed and "which this module did not start" in made.refusal
    for state in ("stopped", "absent"):
        assert steps(foreign, daemon=in_state(state)) == Steps()


def test_new_limits_are_pushed_and_said_to_servers_without_clients() -> None:
    made = steps(dataclasses.replace(RUNS, stale=STALE, servers=(Server(4001, "ACTIVE", stale=STALE),)))
    assert (made.verbs, made.servers, made.pending) == (["push"], [4001], [])


def test_limits_that_reading_back_may_not_show_are_pushed_when_their_script_changes() -> None:
    made = steps(RUNS, on_disk={"/etc/m/team.sh": "push 49"})
    assert (made.verbs, made.files) == (["push"], FILES)


LIVE_DRIFT = dataclasses.replace(BUSY, stale=STALE, servers=(Server(4001, "ACTIVE", (5001,), STALE),))


def test_a_live_server_keeps_its_limits_and_that_is_pending() -> None:
    made = steps(LIVE_DRIFT, "defer")
    assert (made.verbs, made.servers) == (["push"], [])
    assert made.pending == ["team: active_thread_percentage of server 4001, until its clients 5001 have ended"]


def test_what_is_pending_is_told_again_and_changes_nothing() -> None:
    made = steps(dataclasses.replace(LIVE_DRIFT, stale=()), "defer")
    assert (made.changed, len(made.pending)) == (False, 1)


def test_clients_are_not_touched_unless_it_is_said() -> None:
    assert "meets clients (5001)" in steps(LIVE_DRIFT).refusal
    for state in ("stopped", "absent"):
        made = steps(BUSY, daemon=in_state(state))
        assert "its stop meets clients (5001)" in made.refusal and not made.changed
        assert steps(BUSY, "defer", in_state(state)).pending and not steps(BUSY, "defer", in_state(state)).changed
        assert (steps(BUSY, "drain", in_state(state)).drain, steps(BUSY, "drain", in_state(state)).verbs) == (
            True,
            ["stop"],
        )


def test_servers_are_drained_before_they_get_new_limits() -> None:
    made = steps(LIVE_DRIFT, "drain")
    assert (made.drain, made.servers) == (True, [4001])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"arguments": ("-d", "-S")}, "its options"),
        ({"environment": {**RUNS.environment, "CUDA_VISIBLE_DEVICES": "GPU-other"}}, "devices"),
        ({"environment": {**RUNS.environment, "CUDA_MPS_LOG_DIRECTORY": "/other"}}, "log directory"),
        ({"environment": {**RUNS.environment, "RIGWRIGHT_MPS": "systemd:team"}}, "manager"),
        ({"environment": {**RUNS.environment, "RIGWRIGHT_MPS_PARTITIONS": "a:b:8"}}, "partitions"),
        (
            {"environment": {**RUNS.environment, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1G"}},
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
        ),
        ({"uid": 1001}, "its user"),
        ({"extra": ("the limit 2G of GPU-aaaaaaaa",)}, "the limit 2G of GPU-aaaaaaaa"),
    ],
)
def test_what_a_process_was_started_with_needs_a_restart(change: dict[str, Any], reason: str) -> None:
    assert steps(dataclasses.replace(RUNS, **change)).verbs == ["restart"]
    (text,) = steps(dataclasses.replace(BUSY, **change), "defer").pending
    assert f"a restart for {reason}" in text


def test_a_restart_that_waits_leaves_the_files_as_the_process_knows_them() -> None:
    made = steps(dataclasses.replace(BUSY, arguments=("-d", "-S")), "defer", on_disk={"/etc/m/team.sh": "old"})
    assert (made.changed, len(made.pending)) == (False, 1)


def test_absent_takes_the_files_and_stopped_leaves_them() -> None:
    assert steps(RUNS, daemon=in_state("absent")).files == {"/etc/m/team.sh": None}
    assert steps(RUNS, daemon=in_state("stopped")).files == {}
    assert not steps(Live(), daemon=in_state("stopped")).changed
    assert not steps(Live(), daemon=in_state("absent"), on_disk={"/etc/m/team.sh": None}).changed


def test_a_unit_is_enabled_with_its_daemon_and_disabled_with_it() -> None:
    assert steps(Live(), manager="systemd").verbs == ["enable", "start"]
    assert steps(Live(enabled=True), manager="systemd").verbs == ["start"]
    assert steps(Live(enabled=True), daemon=in_state("stopped"), manager="systemd").verbs == ["disable"]


def test_a_file_of_another_protocol_goes() -> None:
    made = steps(RUNS, on_disk={**FILES, "/etc/m/team.toml": "x"})
    assert made.files == {"/etc/m/team.toml": None}


THREE = dataclasses.replace(TEAM, protocol=3)
TOML = "/etc/m/team.toml"


def with_toml(before: str, after: str) -> Steps:
    live = dataclasses.replace(RUNS, arguments=("-d", "-p", "3", "-a", TOML))
    wanted = {**FILES, TOML: after}
    return decide(THREE, live, wanted, {**FILES, TOML: before}, "fail", "none", 0)


def test_a_configuration_that_is_read_once_is_read_again_by_a_restart_unless_a_command_says_the_same() -> None:
    one = 'uid = 1\nactive_thread_percentage = "50"\n'
    assert with_toml(one, one.replace("50", "25")).verbs == []
    assert with_toml(one, one.replace("uid = 1", "uid = 2")).verbs == ["restart"]
    assert with_toml(one, "uid = 1\n").verbs == ["restart"]

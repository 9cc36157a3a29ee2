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


def test_missing_daemon_is_started() -> None:
    planned = steps(Live(), on_disk={"/etc/m/team.sh": None})
    assert (planned.verbs, planned.files, planned.changed) == (["start"], FILES, True)


def test_matching_daemon_needs_no_steps() -> None:
    assert not steps(RUNS).changed
    assert not steps(BUSY).changed


def test_foreign_daemon_is_left_alone() -> None:
    foreign = Live(4000, "", 0, ("-d",), {})
    planned = steps(foreign)
    assert not planned.changed and "which this module did not start" in planned.refusal
    for state in ("stopped", "absent"):
        assert steps(foreign, daemon=in_state(state)) == Steps()


def test_new_limits_are_set_for_servers_without_clients() -> None:
    planned = steps(dataclasses.replace(RUNS, stale=STALE, servers=(Server(4001, "ACTIVE", stale=STALE),)))
    assert (planned.verbs, planned.servers, planned.pending) == (["push"], [4001], [])


def test_changed_script_pushes_the_limits() -> None:
    planned = steps(RUNS, on_disk={"/etc/m/team.sh": "push 49"})
    assert (planned.verbs, planned.files) == (["push"], FILES)


LIVE_DRIFT = dataclasses.replace(BUSY, stale=STALE, servers=(Server(4001, "ACTIVE", (5001,), STALE),))


def test_limits_of_a_server_with_clients_are_pending() -> None:
    planned = steps(LIVE_DRIFT, "defer")
    assert (planned.verbs, planned.servers) == (["push"], [])
    assert planned.pending == ["team: active_thread_percentage of server 4001, until its clients 5001 have ended"]


def test_pending_limits_are_reported_again_without_a_change() -> None:
    planned = steps(dataclasses.replace(LIVE_DRIFT, stale=()), "defer")
    assert (planned.changed, len(planned.pending)) == (False, 1)


def test_clients_block_a_change_by_default() -> None:
    assert "meets clients (5001)" in steps(LIVE_DRIFT).refusal
    for state in ("stopped", "absent"):
        planned = steps(BUSY, daemon=in_state(state))
        assert "its stop meets clients (5001)" in planned.refusal and not planned.changed
        assert steps(BUSY, "defer", in_state(state)).pending and not steps(BUSY, "defer", in_state(state)).changed
        assert (steps(BUSY, "drain", in_state(state)).drain, steps(BUSY, "drain", in_state(state)).verbs) == (
            True,
            ["stop"],
        )


def test_servers_are_drained_before_they_get_new_limits() -> None:
    planned = steps(LIVE_DRIFT, "drain")
    assert (planned.drain, planned.servers) == (True, [4001])


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
def test_changed_options_need_a_restart(change: dict[str, Any], reason: str) -> None:
    assert steps(dataclasses.replace(RUNS, **change)).verbs == ["restart"]
    (text,) = steps(dataclasses.replace(BUSY, **change), "defer").pending
    assert f"a restart for {reason}" in text


def test_deferred_restart_leaves_the_files() -> None:
    planned = steps(dataclasses.replace(BUSY, arguments=("-d", "-S")), "defer", on_disk={"/etc/m/team.sh": "old"})
    assert (planned.changed, len(planned.pending)) == (False, 1)


def test_absent_removes_the_files_and_stopped_keeps_them() -> None:
    assert steps(RUNS, daemon=in_state("absent")).files == {"/etc/m/team.sh": None}
    assert steps(RUNS, daemon=in_state("stopped")).files == {}
    assert not steps(Live(), daemon=in_state("stopped")).changed
    assert not steps(Live(), daemon=in_state("absent"), on_disk={"/etc/m/team.sh": None}).changed


def test_a_unit_is_enabled_with_its_daemon_and_disabled_with_it() -> None:
    assert steps(Live(), manager="systemd").verbs == ["enable", "start"]
    assert steps(Live(enabled=True), manager="systemd").verbs == ["start"]
    assert steps(Live(enabled=True), daemon=in_state("stopped"), manager="systemd").verbs == ["disable"]


def test_file_of_another_protocol_is_removed() -> None:
    planned = steps(RUNS, on_disk={**FILES, "/etc/m/team.toml": "x"})
    assert planned.files == {"/etc/m/team.toml": None}


THREE = dataclasses.replace(TEAM, protocol=3)
TOML = "/etc/m/team.toml"


def with_toml(before: str, after: str) -> Steps:
    live = dataclasses.replace(RUNS, arguments=("-d", "-p", "3", "-a", TOML))
    wanted = {**FILES, TOML: after}
    return decide(THREE, live, wanted, {**FILES, TOML: before}, "fail", "none", 0)


def test_configuration_needs_a_restart_except_for_limits() -> None:
    daemon = 'uid = 1\nactive_thread_percentage = "50"\n'
    assert with_toml(daemon, daemon.replace("50", "25")).verbs == []
    assert with_toml(daemon, daemon.replace("uid = 1", "uid = 2")).verbs == ["restart"]
    assert with_toml(daemon, "uid = 1\n").verbs == ["restart"]

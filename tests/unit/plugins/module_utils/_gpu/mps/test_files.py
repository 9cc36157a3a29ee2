# SPDX-License-Identifier: GPL-3.0-or-later
"""Unit, script and configuration of a daemon. The traps are those of units in the wild (gpu.md 2.6 and 9)."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps import files
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.request import Daemon, Namespace, Partition

A = "GPU-aaaaaaaa"
PROGRAM = "/usr/bin/nvidia-cuda-mps-control"
TEAM = Daemon(
    "team",
    devices=(A,),
    percentage=50,
    memory_mib={A: 1044},
    pipe="/run/nvidia-mps/team",
    log="/var/log/nvidia-mps/team",
)
ALICE = Daemon("team", devices=(A,), user="alice", pipe="/run/nvidia-mps/team", log="/var/log/nvidia-mps/team")
THREE = Daemon(
    "Team-A",
    devices=(A,),
    percentage=50,
    memory_mib={A: 20480},
    priority=1,
    partitions=(Partition("large", A, 4),),
    namespaces=(Namespace("eval", 25, 4096),),
    protocol=3,
    pipe="/run/nvidia-mps/Team-A",
    log="/var/log/nvidia-mps/Team-A",
)


def unit(daemon: Daemon) -> str:
    return files.unit(daemon, PROGRAM, "/etc/nvidia-mps/team.sh", "/etc/nvidia-mps/team.toml")


def test_unit_stops_by_a_shell() -> None:
    (stop,) = [line for line in unit(TEAM).splitlines() if line.startswith("ExecStop=")]
    assert stop == f"ExecStop=/bin/sh -c 'echo quit -t 10 | exec {PROGRAM}'"


def test_protocol_3_stops_by_an_option() -> None:
    assert f"ExecStop=/bin/sh -c 'exec {PROGRAM} -q'\n" in unit(THREE)


def test_unit_runs_the_daemon_in_the_foreground() -> None:
    text = unit(TEAM)
    assert "Type=simple\n" in text and f"ExecStart={PROGRAM} -f\n" in text
    assert "forking" not in text


def test_limits_are_pushed_at_each_start() -> None:
    assert "ExecStartPost=/bin/sh /etc/nvidia-mps/team.sh\n" in unit(TEAM)
    assert "Restart=on-failure\n" in unit(TEAM)


def test_unit_starts_after_persistenced_with_own_directories() -> None:
    text = unit(TEAM)
    assert "After=nvidia-persistenced.service\n" in text
    assert "RuntimeDirectory=nvidia-mps/team\n" in text and "LogsDirectory=nvidia-mps/team\n" in text
    assert 'Environment="CUDA_VISIBLE_DEVICES=GPU-aaaaaaaa"\n' in text


def test_directory_of_a_user_is_closed_to_others() -> None:
    assert "User=alice\n" in unit(ALICE) and "RuntimeDirectoryMode=0700\n" in unit(ALICE)
    assert "User=" not in unit(TEAM) and "RuntimeDirectoryMode=0755\n" in unit(TEAM)


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    path = tmp_path / "nvidia-mps@team.service"
    path.write_text(unit(TEAM).replace(PROGRAM, "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False)
    ours = [line for line in done.stderr.splitlines() if "nvidia-mps" in line and "not-found" not in line]
    assert [line for line in ours if "Failed to connect" not in line and "man" not in line] == []


@pytest.mark.parametrize(
    ("daemon", "options"),
    [
        (TEAM, ["-f"]),
        (Daemon("a", multiuser=True), ["-f", "-multiuser-server"]),
        (Daemon("a", partitions=(Partition("p", A, 8),)), ["-f", "-S"]),
        (THREE, ["-f", "-p", "3", "-a", "/etc/x.toml"]),
        (Daemon("a", multiuser=True, protocol=3), ["-f", "-p", "3", "-m", "-a", "/etc/x.toml"]),
    ],
)
def test_options_of_a_daemon(daemon: Daemon, options: list[str]) -> None:
    assert files.arguments(daemon, True, "/etc/x.toml") == options
    assert files.arguments(daemon, False, "/etc/x.toml") == ["-d", *options[1:]]


def test_limit_reported_in_whole_gibibytes_is_recognized() -> None:
    percentage, memory = files.queries(TEAM)
    assert (percentage.set, percentage.answers) == (
        "set_default_active_thread_percentage 50",
        ("50", "50.0", "50%"),
    )
    assert memory.set == f"set_default_device_pinned_mem_limit {A} 1044M"
    assert memory.answers == ("1044M", "1G")


def test_limits_of_a_server_are_set_by_its_pid() -> None:
    percentage, memory = files.server_queries(TEAM, 4711)
    assert (percentage.set, percentage.get) == (
        "set_active_thread_percentage 4711 50",
        "get_active_thread_percentage 4711",
    )
    assert memory.set == f"set_device_pinned_mem_limit 4711 {A} 1044M"


def test_missing_percentage_is_set_to_100() -> None:
    (percentage,) = files.queries(Daemon("a", devices=(A,)))
    assert percentage.set == "set_default_active_thread_percentage 100"


def test_configuration_of_protocol_3_matches_the_request() -> None:
    read = tomllib.loads(files.configuration(THREE, 1001))
    server = read["servers"]["team_a"]
    assert read["schema_version"] == "1.0"
    assert (server["allowed_devices"], server["pinned_memory_limit"], server["uid"]) == (A, "20480M", 1001)
    assert (server["active_thread_percentage"], server["client_priority"]) == ("50", "1")
    assert server["namespaces"] == {"eval": {"pinned_memory_limit": "4096M", "active_thread_percentage": "25"}}
    assert server["devices"] == [{"uuid": A, "sm_partitions": [{"name": "large", "chunks": 4}]}]


def test_client_environment_has_the_namespace_directories() -> None:
    environment = files.client_environment(THREE, {"large": f"{A}/Kp8="})
    assert environment == {
        "CUDA_MPS_PIPE_DIRECTORY": "/run/nvidia-mps/Team-A/team_a/default",
        "namespaces": {"eval": "/run/nvidia-mps/Team-A/team_a/eval"},
        "partitions": {"large": f"{A}/Kp8="},
    }


@pytest.mark.parametrize("daemon", [TEAM, THREE])
def test_script_is_valid_shell(daemon: Daemon, tmp_path: Path) -> None:
    path = tmp_path / "team.sh"
    path.write_text(files.script(daemon, PROGRAM))
    subprocess.run(["/bin/sh", "-n", path], check=True)


ANSWERS = {
    "as declared": ("50.0", 0, ""),
    "another percentage": ("100.0", 1, "the daemon reports '100.0'"),
    "nothing": ("", 1, "the daemon reports ''"),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_limit_that_does_not_hold_fails_the_script(case: str, tmp_path: Path) -> None:
    answer, status, message = ANSWERS[case]
    program = tmp_path / "control"
    program.write_text(
        f"#!/bin/sh\nread line\ncase $line in get_default_a*) echo '{answer}' ;; get_default_d*) echo 1G ;; esac\n"
    )
    program.chmod(0o755)
    script = tmp_path / "team.sh"
    script.write_text(files.script(TEAM, str(program)))
    done = subprocess.run(
        ["/bin/sh", script], capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"}
    )
    assert (done.returncode, message in done.stderr) == (status, True), done.stderr


@pytest.mark.parametrize(
    ("manager", "place"),
    [(files.SYSTEMD, "look at journalctl -u nvidia-mps@team.service"), (files.DIRECT, "look at control.log in $CUDA")],
)
def test_missing_answer_names_the_log(manager: str, place: str) -> None:
    """Name the log: driver 580 writes nothing to control.log with -f."""
    assert place in files.script(TEAM, PROGRAM, manager)

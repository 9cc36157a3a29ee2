# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of a control daemon as they are in a terminal, and what is made of them."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.control import (
    NO_DAEMON,
    REFUSED,
    TIMED_OUT,
    UNREADABLE,
    Client,
    Control,
    MpsError,
    cuda_error,
)

Terminal = dict[str, tuple[int, str]]


def control(terminal: Terminal, protocol: int = 2) -> Control:
    """Return a control whose commands have recorded answers."""

    def run(command: object, environment: object, text: str) -> tuple[int, str, str]:
        assert environment == {"CUDA_MPS_PIPE_DIRECTORY": "/run/p", "CUDA_MPS_LOG_DIRECTORY": "/var/log/p"}
        assert isinstance(command, list) and command[:3] == ["timeout", "--signal=KILL", "20"]
        status, out = terminal[" ".join(command[4:]) if protocol == 3 else text.strip()]
        return status, out, ""

    return Control(run, "/usr/bin/nvidia-cuda-mps-control", "/run/p", "/var/log/p", protocol)


SHELL: Terminal = {
    "get_server_list": (0, "4711\n4712\n"),
    "get_server_status 4711": (0, "ACTIVE\n"),
    "get_client_list 4711": (0, "5001\n5002\n"),
    "get_client_list 4712": (0, ""),
    "terminate_client 4711 5001": (0, "0\n"),
    "get_default_client_priority": (0, "Unknown command: get_default_client_priority\n"),
}


def test_servers_and_clients_are_read() -> None:
    shell = control(SHELL)
    assert (shell.servers(), shell.status(4711)) == ([4711, 4712], "ACTIVE")
    assert shell.clients() == [Client(5001, 4711), Client(5002, 4711)]
    shell.terminate(Client(5001, 4711))


def test_protocol_3_is_read_from_csv() -> None:
    lines: Terminal = {
        "server list --format=csv,noheader": (
            0,
            "training,1000,48201,Ready,/run/p/training,GPU-a,-\nidle,0,-,Ready,x,all,-\n",
        ),
        "client list --all --format=csv,noheader": (0, "51023,training,0,default,python train.py --error=1\n"),
        "client terminate 51023": (0, ""),
    }
    three = control(lines, protocol=3)
    assert (three.servers(), three.status(48201)) == ([48201], "Ready")
    assert three.clients() == [Client(51023, 0, "python train.py --error=1")]
    three.terminate(Client(51023, 0))


@pytest.mark.parametrize(
    ("status", "out", "name"),
    [
        (1, "Cannot find MPS control daemon process\n", NO_DAEMON),
        (124, "", TIMED_OUT),
        (137, "", TIMED_OUT),
        (0, "Unknown command: get_server_list\n", REFUSED),
        (0, "Failed to fulfill the requested SM partition of 12 chunks", REFUSED),
        (3, "", REFUSED),
        (0, "Server PID: 4711", UNREADABLE),
    ],
)
def test_a_failure_has_a_stable_name_and_a_next_step(status: int, out: str, name: str) -> None:
    with pytest.raises(MpsError) as caught:
        control({"get_server_list": (status, out)}).servers()
    assert (caught.value.name, bool(caught.value.next_step)) == (name, True)


def test_unknown_command_has_no_answer() -> None:
    assert control(SHELL).try_ask("get_default_client_priority") is None


def test_daemon_without_an_answer_is_not_missing() -> None:
    assert control(SHELL).answers()
    assert not control({"get_server_list": (1, "Cannot find MPS control daemon process")}).answers()
    with pytest.raises(MpsError, match=TIMED_OUT):
        control({"get_server_list": (137, "")}).answers()


@pytest.mark.parametrize("code", [805, 806, 807, 808, 809, 810])
def test_each_error_of_mps_has_a_name_and_a_next_step(code: int) -> None:
    name, next_step = cuda_error(code)
    assert name.startswith("MPS_") and len(next_step) > 20


def test_unknown_error_is_named_by_its_number() -> None:
    assert cuda_error(4321)[0] == "CODE_4321"

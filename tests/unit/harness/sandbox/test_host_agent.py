"""The program that runs commands of tests on a host, here on this machine."""

from __future__ import annotations

import getpass
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from harness.sandbox import clients, host_agent

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run() -> Run:
    def run(command: str, seconds: float = 30) -> dict[str, Any]:
        return host_agent.run(command, getpass.getuser(), seconds)

    return run


def test_a_command_gives_its_status_and_both_outputs(run: Run) -> None:
    assert run("echo out; echo err >&2; exit 3") == {"rc": 3, "stdout": "out\n", "stderr": "err\n"}


def test_output_larger_than_a_pipe_is_whole(run: Run) -> None:
    assert len(run("head -c 3000000 /dev/zero; echo end")["stdout"]) == 3_000_004


def test_a_command_that_takes_too_long_ends(run: Run) -> None:
    assert run("echo begun; sleep 60", seconds=0.5) == {"rc": 124, "stdout": "begun\n", "stderr": ""}


def test_a_child_in_the_background_is_not_waited_for(run: Run) -> None:
    done = run("sleep 60 & echo $!")
    assert done["rc"] == 0
    subprocess.run(["kill", done["stdout"].strip()], check=True)


def test_streams_can_be_opened_by_name(run: Run) -> None:
    assert run("echo out > /dev/stdout; echo err > /dev/stderr") == {"rc": 0, "stdout": "out\n", "stderr": "err\n"}


def test_requests_are_answered_in_their_order() -> None:
    requests = [{"command": f"echo {number}; pwd", "user": getpass.getuser(), "seconds": 30} for number in range(3)] + [
        {"command": "true", "user": "no-such-user", "seconds": 30}
    ]
    sent = "".join(f"{line}\n" for line in [repr(clients.PROGRAM), *map(json.dumps, requests)])
    done = subprocess.run(
        [sys.executable, "-c", clients.LOADER], input=sent, capture_output=True, text=True, check=True
    )
    *answers, refused = map(json.loads, done.stdout.splitlines())
    assert [answer["stdout"] for answer in answers] == ["0\n/\n", "1\n/\n", "2\n/\n"]
    assert "no-such-user" in refused["error"]

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
Ask = Callable[..., list[dict[str, Any]]]


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


@pytest.fixture
def ask() -> Ask:
    """Start the agent as a host does, and send it commands as a user."""

    def ask(*commands: str, user: str = getpass.getuser()) -> list[dict[str, Any]]:
        requests = [json.dumps({"command": command, "user": user, "seconds": 30}) for command in commands]
        sent = "".join(f"{line}\n" for line in [repr(clients.PROGRAM), *requests])
        command = [sys.executable, "-c", clients.LOADER]
        done = subprocess.run(command, input=sent, capture_output=True, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    return ask


def test_requests_are_answered_in_their_order(ask: Ask) -> None:
    answers = ask("echo first; pwd", "echo second; exit 3")
    assert answers == [
        {"rc": 0, "stdout": "first\n/\n", "stderr": ""},
        {"rc": 3, "stdout": "second\n", "stderr": ""},
    ]


def test_an_unknown_user_is_refused(ask: Ask) -> None:
    refused, second = ask("true", "true", user="no-such-user")
    assert "no-such-user" in refused["error"]
    assert "no-such-user" in second["error"]


def test_a_test_that_kills_every_python_does_not_end_it(ask: Ask) -> None:
    # `timeout` is the parent of the shell, and the agent is its parent.
    (answer,) = ask("cat /proc/$(ps -o ppid= -p $PPID | tr -d ' ')/comm")
    assert answer["stdout"] == f"{host_agent.NAME}\n"

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Commands of a control daemon of MPS, its answers, and its errors with a remedy."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.files import ANSWER_S, LOG, PIPE

# arguments, environment, standard input -> exit status, output, errors
Run = t.Callable[[t.Sequence[str], t.Mapping[str, str], str], "tuple[int, str, str]"]

PROGRAM = "nvidia-cuda-mps-control"
NO_DAEMON = "NO_DAEMON"
SECOND = "SECOND_DAEMON"
TIMED_OUT = "TIMEOUT"
REFUSED = "REFUSED"
UNREADABLE = "UNREADABLE"

# With `-f`, as a unit starts it, driver 580 writes to its standard error and leaves control.log empty (observed on an H200).
LOG_HINT = (
    "look at `journalctl -u nvidia-mps@NAME`, or, of a daemon that no unit runs, at control.log in its log directory"
)

NEXT_STEPS = {
    NO_DAEMON: f"start it, and see that the pipe directory is the daemon's own: {LOG_HINT}",
    SECOND: "a daemon has this pipe directory already: stop it, or take another name or pipe_root",
    TIMED_OUT: "the daemon does not answer: a client of another user may hold its server, or the GPU hangs (gpu_health)",
    REFUSED: LOG_HINT,
    UNREADABLE: "this driver answers in an unknown form: report it with the driver's version",
}

# Errors of cuda.h that a client gets, each with a remedy.
CUDA_ERRORS: dict[int, tuple[str, str]] = {
    1: ("INVALID_VALUE", "this is a mistake of the collection: report it"),
    2: ("OUT_OF_MEMORY", "ask for less, or raise the limit of memory"),
    3: ("NOT_INITIALIZED", "this is a mistake of the collection: report it"),
    46: (
        "DEVICES_UNAVAILABLE",
        "another process has the GPU for itself: look at its compute mode (gpu_mode) and who uses it",
    ),
    100: ("NO_DEVICE", "the daemon has no GPU to show: compare its `devices` with gpu_info"),
    101: ("INVALID_DEVICE", "name devices by UUID, and leave CUDA_VISIBLE_DEVICES of clients unset"),
    800: ("NOT_PERMITTED", "the client is of another user than the daemon: set `user` to it, or `multiuser`"),
    802: (
        "SYSTEM_NOT_READY",
        "look at `systemctl status nvidia-fabricmanager`: it has to run, in the driver's version",
    ),
    803: ("SYSTEM_DRIVER_MISMATCH", "reboot: the loaded driver and its libraries are of two versions"),
    805: ("MPS_CONNECTION_FAILED", "the daemon's server did not come up: look at server.log in its log directory"),
    806: ("MPS_RPC_FAILURE", "the server was lost on the way: look at server.log, and run it again"),
    807: (
        "MPS_SERVER_NOT_READY",
        "a client's fault holds the server until all affected clients have ended, or it is of another user: end them, or wait",
    ),
    808: ("MPS_MAX_CLIENTS_REACHED", "48 clients have this GPU: end some, or take fewer"),
    809: ("MPS_MAX_CONNECTIONS_REACHED", "lower CUDA_DEVICE_MAX_CONNECTIONS of the clients"),
    810: ("MPS_CLIENT_TERMINATED", "the client was ended by terminate_client: start it again"),
    914: ("INVALID_RESOURCE_CONFIGURATION", "set CUDA_MPS_SM_PARTITION to a partition of the daemon"),
    999: ("UNKNOWN", "look at the kernel log (NVRM, Xid), then at gpu_health"),
}

# Words of a failure: the shell of protocol 2 exits with 0 after every command.
_FAILURE = re.compile(
    r"\b(unknown|invalid|fail(ed|ure)?|error|not found|unable|cannot|denied|not enabled)\b", re.IGNORECASE
)


class MpsError(Exception):
    """A command to a daemon failed. ``name`` is stable."""

    def __init__(self, name: str, text: str, next_step: str = "") -> None:
        self.name = name
        self.next_step = next_step or NEXT_STEPS.get(name, NEXT_STEPS[REFUSED])
        super().__init__(f"{name}: {text}: {self.next_step}")


def cuda_error(code: int) -> tuple[str, str]:
    """Return name and next step of an error of the CUDA driver."""
    return CUDA_ERRORS.get(code, (f"CODE_{code}", CUDA_ERRORS[999][1]))


class Control:
    """A daemon at its pipe directory."""

    def __init__(self, run: Run, program: str, pipe: str, log: str, protocol: int = 2) -> None:
        self.run, self.program, self.pipe, self.protocol = run, program, pipe, protocol
        self.environment = {PIPE: pipe, LOG: log}

    def ask(self, command: str) -> str:
        """Send a command to the daemon, and return its answer. On protocol 3 commands are arguments.

        :raises MpsError: there is no daemon, it does not answer in time, or it refuses the command.
        """
        arguments = command.split() if self.protocol == 3 else []
        limited = ["timeout", "--signal=KILL", str(ANSWER_S), self.program, *arguments]
        status, out, err = self.run(limited, self.environment, "" if arguments else f"{command}\n")
        text = (out.strip() or err.strip()).strip()
        if "Cannot find MPS control daemon" in f"{out}{err}":
            raise MpsError(NO_DAEMON, f"nothing answers at {self.pipe}")
        if status in (124, 137, -9):
            raise MpsError(TIMED_OUT, f"`{command}` had no answer in {ANSWER_S} s")
        if status != 0 or (_FAILURE.search(text) and not command.startswith("client list")):
            raise MpsError(REFUSED, f"`{command}`: {text or f'exit status {status}'}")
        return out.strip()

    def answers(self) -> bool:
        """Return whether a daemon answers.

        :raises MpsError: the daemon exists but does not answer in time.
        """
        try:
            self.ask("server list" if self.protocol == 3 else "get_server_list")
        except MpsError as error:
            if error.name == TIMED_OUT:
                raise
            # A daemon of the other protocol refuses the command, which is an answer.
            return error.name != NO_DAEMON
        return True

    def try_ask(self, command: str) -> str | None:
        """Send a command; return None if the driver refuses it."""
        try:
            return self.ask(command)
        except MpsError as error:
            if error.name == REFUSED:
                return None
            raise

    def servers(self) -> list[int]:
        if self.protocol == 3:
            rows = csv_rows(self.ask("server list --format=csv,noheader"))
            return [int(row[2]) for row in rows if len(row) > 2 and row[2].isdecimal()]
        return parse_pids(self.ask("get_server_list"))

    def status(self, server: int) -> str:
        """Return the status of a server: ACTIVE, INITIALIZING or FAULT."""
        if self.protocol == 3:
            rows = csv_rows(self.ask("server list --format=csv,noheader"))
            return next((row[3] for row in rows if len(row) > 3 and row[2] == str(server)), "")
        return self.ask(f"get_server_status {server}").upper()

    def clients(self, servers: t.Sequence[int] | None = None) -> list[Client]:
        """Return the clients of these servers, or of all; protocol 3 lists them at once, without the process ids of their servers."""
        if self.protocol == 3:
            rows = csv_rows(self.ask("client list --all --format=csv,noheader"))
            return [Client(int(row[0]), 0, row[-1]) for row in rows if row[0].isdecimal()]
        return [
            Client(pid, server)
            for server in (self.servers() if servers is None else servers)
            for pid in parse_pids(self.ask(f"get_client_list {server}"))
        ]

    def terminate(self, client: Client) -> None:
        """End a client's work on the GPU, before its process may be killed: killing it first is undefined."""
        if self.protocol == 3:
            self.ask(f"client terminate {client.pid}")
        else:
            self.ask(f"terminate_client {client.server} {client.pid}")

    def quit(self) -> None:
        if self.protocol == 3:
            self.run(["timeout", "--signal=KILL", str(ANSWER_S), self.program, "-q"], self.environment, "")
        else:
            self.ask("quit -t 10")


@dataclasses.dataclass(frozen=True)
class Client:
    pid: int
    server: int
    command: str = ""


def parse_pids(text: str) -> list[int]:
    """Parse process ids, one a line. A text without a number means none.

    :raises MpsError: a line is no process id.
    """
    lines = [line.strip() for line in text.splitlines() if re.search(r"\d", line)]
    if not all(line.isdecimal() for line in lines):
        raise MpsError(UNREADABLE, f"a list of PIDs was expected, not {text!r}")
    return [int(line) for line in lines]


def csv_rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A program with a time limit: its output is bounded, and its children end with it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
import typing as t
from dataclasses import dataclass

from ansible_collections.rigwright.workstation.plugins.module_utils._core import programs

# Kept of the output of a program: the report is one line, and a wrong program may never stop.
KEPT_BYTES = 65536
# The program ends itself at the limit. This much later it is killed, with its children.
GRACE_S = 20
# For nvidia-smi and docker.
ANSWER_S = 60


class AsUser(t.TypedDict, total=False):
    """The options of Popen that start a program as a user."""

    user: int
    group: int
    extra_groups: list[int]
    env: dict[str, str]


@dataclass(frozen=True)
class Outcome:
    """The result of a program. `status` is None where it was killed at its limit; only the end of its output is kept."""

    status: int | None
    stdout: str = ""
    stderr: str = ""


def keep_end(pipe: t.IO[bytes], kept: bytearray) -> None:
    """Read a pipe until it is closed, and keep the last KEPT_BYTES."""
    with contextlib.suppress(OSError):
        while True:
            piece = os.read(pipe.fileno(), KEPT_BYTES)
            if not piece:
                break
            kept += piece
            del kept[:-KEPT_BYTES]


def feed(pipe: t.IO[bytes], text: str) -> None:
    """Write a text into a pipe, and close it. The program need not read it."""
    with contextlib.suppress(BrokenPipeError):
        pipe.write(text.encode())
    with contextlib.suppress(BrokenPipeError):
        pipe.close()


def adopt_orphans() -> None:
    """Make this process the parent of what its children leave behind, so that it can end them (prctl(2), PR_SET_CHILD_SUBREAPER)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def children() -> set[int]:
    """Return the children of this process."""
    found = set()
    for name in filter(str.isdecimal, os.listdir("/proc")):
        # The name of a program may have blanks and brackets: the fields begin after the last bracket.
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                found.add(int(name))
    return found


def end_orphans(others: t.Container[int]) -> None:
    """Kill the children of this process, and what they leave behind in turn.

    :param others: the children that it had before.
    """
    limit = time.monotonic() + GRACE_S
    while time.monotonic() < limit:
        orphans = [pid for pid in children() if pid not in others]
        if not orphans:
            return
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def execute(command: t.Sequence[str], seconds: float, text: str = "", **options: t.Any) -> Outcome:
    """Run a program to its end, or kill it and its children at the limit.

    :raises OSError: it cannot be started.
    """
    adopt_orphans()
    others = children()
    # run_command has no time limit, and kills no children.
    process = programs.start(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        start_new_session=True,
        **options,
    )
    kept = (bytearray(), bytearray())
    pipes = t.cast("tuple[t.IO[bytes], ...]", (process.stdin, process.stdout, process.stderr))
    threads = [
        threading.Thread(target=feed, args=(pipes[0], text), daemon=True),
        *(threading.Thread(target=keep_end, args=pair, daemon=True) for pair in zip(pipes[1:], kept)),
    ]
    for thread in threads:
        thread.start()
    limit = time.monotonic() + seconds
    in_time = False
    try:
        # A process that is not reaped yet keeps its process group from being reused.
        while not in_time and time.monotonic() < limit:
            time.sleep(0.05)
            in_time = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        # A session of its own keeps a child out of the process group.
        end_orphans(others)
    for thread in threads:
        thread.join(ANSWER_S)
    stdout, stderr = (bytes(output).decode(errors="replace") for output in kept)
    return Outcome(process.returncode if in_time else None, stdout, stderr)

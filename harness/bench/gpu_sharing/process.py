"""A child process that takes and answers lines of JSON, with a limit for each wait."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from harness.bench.gpu_sharing import mps

ROOT = Path(__file__).parents[3]
END_S = 5.0


class Lost(Exception):
    """The child has ended, does not answer in time, or reports a problem."""


class Process:
    def __init__(self, module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self.answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.child = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env=os.environ | dict(environment or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
            preexec_fn=mps.end_with_parent,
        )
        self.lines: list[str] = []
        self.readers = [
            threading.Thread(target=target, args=(pipe,), daemon=True)
            for target, pipe in ((self.read, self.child.stdout), (self.keep, self.child.stderr))
        ]
        for reader in self.readers:
            reader.start()

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self.child.pid

    def read(self, pipe: IO[str]) -> None:
        """Read answers until the pipe is closed."""
        for line in pipe:
            with contextlib.suppress(ValueError):
                self.answers.put(json.loads(line))
        self.answers.put(None)

    def keep(self, pipe: IO[str]) -> None:
        """Keep the last lines of a pipe."""
        for line in pipe:
            self.lines = [*self.lines[-20:], line.rstrip()]

    def send(self, **command: Any) -> None:
        """Send a command.

        :raises Lost: the child takes no more.
        """
        try:
            if self.child.stdin is not None:
                self.child.stdin.write(json.dumps(command) + "\n")
                self.child.stdin.flush()
        except (OSError, ValueError) as error:
            raise Lost(f"process {self.pid} takes no commands: {error}. {self.error_output()}") from error

    def hear(self, seconds: float) -> dict[str, Any]:
        """Wait for the next answer.

        :raises Lost: none came in time, or it is a problem.
        """
        try:
            answer = self.answers.get(timeout=max(0.0, seconds))
        except queue.Empty:
            raise Lost(f"process {self.pid} does not answer in {seconds:.0f} s") from None
        if answer is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(1)
            for reader in self.readers:
                reader.join(1)
            raise Lost(f"process {self.pid} ended with status {self.child.poll()}. {self.error_output()}")
        if "problem" in answer:
            raise Lost(answer["problem"])
        return answer

    def error_output(self) -> str:
        """Return the last lines of standard error."""
        return " / ".join(self.lines[-3:])

    def kill(self) -> None:
        """Kill this child only."""
        if self.child.poll() is None:
            self.child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.wait(END_S)
        for pipe in (self.child.stdin, self.child.stdout, self.child.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError, ValueError):
                    pipe.close()


def end(processes: list[Process]) -> None:
    """Send `quit` to all processes, and kill those that do not end."""
    for process in processes:
        with contextlib.suppress(Lost):
            process.send(do="quit")
    limit = time.monotonic() + END_S
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.child.wait(max(0.0, limit - time.monotonic()))
        process.kill()

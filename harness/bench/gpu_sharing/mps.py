"""Private MPS daemons with their own directories. Nothing on the machine is changed, and each daemon is quit at the end."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

CONTROL = "nvidia-cuda-mps-control"
READY_S = 10.0
ANSWER_S = 10.0
QUIT_S = 8.0
PR_SET_PDEATHSIG = 1
# Loaded here: between fork and exec nothing must be loaded.
LIBC = ctypes.CDLL(None)


def end_with_parent() -> None:
    """Send SIGTERM to this child when the bench dies, even by SIGKILL (prctl(2))."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class NotStarted(Exception):
    """The daemon did not start; the message is its output."""


class Daemon:
    """A control daemon in the foreground, as a child of the bench.

    :raises NotStarted: there is no such program, it ended, or it does not answer.
    """

    def __init__(self, name: str, *options: str) -> None:
        self.name = name
        self.folder = Path(tempfile.mkdtemp(prefix=f"rigwright-mps-{name}-"))
        self.pipes, self.logs = self.folder / "pipe", self.folder / "log"
        for folder in (self.pipes, self.logs):
            folder.mkdir()
        self.environment = {
            "CUDA_MPS_PIPE_DIRECTORY": str(self.pipes),
            "CUDA_MPS_LOG_DIRECTORY": str(self.logs),
        }
        self.output = (self.folder / "output").open("wb")
        try:
            self.process: subprocess.Popen[bytes] | None = subprocess.Popen(
                [CONTROL, "-f", *options],
                env=os.environ | self.environment,
                stdin=subprocess.DEVNULL,
                stdout=self.output,
                stderr=subprocess.STDOUT,
                preexec_fn=end_with_parent,
            )
        except OSError as error:
            self.process = None
            self.close()
            raise NotStarted(f"{CONTROL}: {error.strerror}") from error
        self.wait()

    def wait(self) -> None:
        """Wait until the daemon answers."""
        limit = time.monotonic() + READY_S
        while self.process is not None and self.process.poll() is None and time.monotonic() < limit:
            status, output = self.ask("get_server_list")
            if status == 0 and "Cannot find" not in output:
                return
            time.sleep(0.05)
        output = self.output_end()
        self.close()
        raise NotStarted(output or f"{CONTROL} does not answer")

    def ask(self, verb: str, seconds: float = ANSWER_S) -> tuple[int, str]:
        """Run one command of the daemon; return status and output. The status is 124 where no answer came in time."""
        try:
            done = subprocess.run(
                [CONTROL],
                input=verb + "\n",
                env=os.environ | self.environment,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return 124, f"no answer to {verb} in {seconds:g} s"
        return done.returncode, (done.stdout + done.stderr).strip()

    def servers(self) -> list[int]:
        """Return the ids of the servers."""
        return [int(word) for word in self.ask("get_server_list")[1].split() if word.isdecimal()]

    def clients(self) -> list[int]:
        """Return the ids of the clients."""
        found = []
        for server in self.servers():
            found += [int(word) for word in self.ask(f"get_client_list {server}")[1].split() if word.isdecimal()]
        return found

    def output_end(self, lines: int = 12) -> str:
        """Return the last lines of the daemon and its servers."""
        texts = []
        for path in (self.folder / "output", self.logs / "control.log", self.logs / "server.log"):
            with contextlib.suppress(OSError):
                texts += path.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join(texts)

    def close(self) -> None:
        """Quit the daemon, and remove its directories. It may be incomplete."""
        process, self.process = self.process, None
        if process is not None and process.poll() is None:
            servers = self.servers()
            self.ask(f"quit -t {int(QUIT_S / 2)}", QUIT_S)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(QUIT_S)
            if process.poll() is None:
                # It hangs. Its servers are its own children, known by their ids.
                for number in servers:
                    with contextlib.suppress(OSError):
                        os.kill(number, signal.SIGKILL)
                process.kill()
                process.wait()
        self.output.close()
        shutil.rmtree(self.folder, ignore_errors=True)

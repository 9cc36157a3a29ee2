# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The child process that asks the driver. One that does not answer is killed; while the kernel keeps it, no other is started."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import programs

# A sample of 16 GPUs with a thousand processes is a tenth of it.
_LIMIT = 4 << 20


class Unanswered(Exception):
    """The child does not answer. The text is for people."""


class Child:
    """A child process that answers each line with one line of JSON.

    :param start_s: how long its first answer may take at least: it has to be loaded before.
    """

    def __init__(self, command: t.Sequence[str], start_s: float = 0.0) -> None:
        self.command = list(command)
        self.start_s = start_s
        self._has_answered = False
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False

    @property
    def pid(self) -> int | None:
        """Return the pid of the running child."""
        return self._process.pid if self._process else None

    def ask(self, timeout_s: float) -> dict[str, object]:
        """Return the answer of the child, which is started if there is none.

        :raises Unanswered: it does not answer in time, ends, or answers with something else.
        """
        try:
            process = self._running()
            requests = t.cast("t.IO[bytes]", process.stdin)
            requests.write(b"\n")
            requests.flush()
            line = self._line(process, timeout_s if self._has_answered else max(timeout_s, self.start_s))
        except OSError as error:
            self.kill()
            raise Unanswered(f"the process that asks NVML has ended ({error.strerror})") from error
        try:
            answer = json.loads(line)
            if not isinstance(answer, dict):
                raise ValueError("no object")
        except ValueError as error:
            self.kill()
            raise Unanswered(
                f"the process that asks NVML has ended with an answer that cannot be read ({error})"
            ) from None
        self._has_answered = True
        if process.poll() is not None:
            self._process = None
        return answer

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process and self._killed and self._process.poll() is None:
            raise Unanswered("NVML does not answer, and the kernel cannot end the process that asks it")
        if self._process is None or self._process.poll() is not None:
            self._release()
            # A program of its own: a fork would share the sampler's files.
            self._process = programs.start(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self._killed = self._has_answered = False
        return self._process

    def _line(self, process: subprocess.Popen[bytes], timeout_s: float) -> bytes:
        handle = t.cast("t.IO[bytes]", process.stdout).fileno()
        found, end = b"", time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(handle, selectors.EVENT_READ)
            while not found.endswith(b"\n"):
                if not selector.select(max(0.0, end - time.monotonic())):
                    self.kill()
                    raise Unanswered(f"NVML does not answer within {timeout_s:.0f} s")
                part = os.read(handle, 1 << 16)
                found += part
                if not part or len(found) > _LIMIT:
                    break
        return found

    def kill(self) -> None:
        """End the child without waiting for it: one that waits for the driver ends when the driver lets it."""
        if self._process:
            self._process.kill()
            self._killed = True

    def _release(self) -> None:
        if self._process:
            for stream in (self._process.stdin, self._process.stdout):
                if stream:
                    stream.close()
            self._process = None

    def close(self) -> None:
        """End the child, which has nothing to save."""
        self.kill()
        self._release()

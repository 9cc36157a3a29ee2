# SPDX-License-Identifier: GPL-3.0-or-later
"""A terminal for tests: a pseudo-terminal on which a program runs, and what a person would read there."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_PIECES = re.compile(r"\x1b\[(\?25|[0-9;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)|(.)", re.DOTALL)


class Screen:
    """Interprets the few control sequences that the callback uses, and refuses others. Lines that scrolled away are kept."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.lines: list[list[str]] = [[]]
        self.row = self.column = 0
        self.cursor = True

    def feed(self, text: str) -> Iterator[list[str]]:
        """Take output in, and yield the lines of each frame: whenever the cursor appears again."""
        for numbers, control, move, printed, other in _PIECES.findall(text):
            if other:
                raise AssertionError(f"unexpected {other!r}")
            if printed:
                self._print(printed)
            elif move == "\r":
                self.column = 0
            elif move == "\n":
                self._feed_line()
            else:
                self._control(numbers, control)
            if (numbers, control) == ("?25", "h"):
                yield self.text()

    def text(self) -> list[str]:
        """Return all lines, also those that scrolled away."""
        return ["".join(line).rstrip() for line in self.lines]

    def _control(self, numbers: str, control: str) -> None:
        if control == "A":
            # The cursor does not leave the window.
            self.row = max(self.row - int(numbers or 1), len(self.lines) - self.rows, 0)
        elif (numbers, control) == ("", "K"):
            del self.lines[self.row][self.column :]
        elif (numbers, control) == ("", "J"):
            del self.lines[self.row][self.column :], self.lines[self.row + 1 :]
        elif numbers == "?25":
            self.cursor = control == "h"
        elif control != "m":
            raise AssertionError(f"unexpected CSI {numbers}{control}")

    def _print(self, text: str) -> None:
        for character in text:
            wide = unicodedata.east_asian_width(character) in "WF"
            if self.column + 1 + wide > self.columns:
                self.column = 0
                self._feed_line()
            line = self.lines[self.row]
            line += [" "] * (self.column - len(line))
            # The second cell of a wide character is empty.
            line[self.column : self.column + 1 + wide] = [character, ""] if wide else [character]
            self.column += 1 + wide

    def _feed_line(self) -> None:
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append([])


@dataclass
class Session:
    """How a program on the terminal ended, what it wrote, the screen after that, and each frame before."""

    rc: int
    output: str
    screen: Screen
    frames: list[list[str]] = field(default_factory=list)


def run_on_terminal(
    arguments: Sequence[str | Path],
    folder: Path,
    environment: Mapping[str, str],
    *,
    columns: int,
    rows: int = 30,
    interrupt: Callable[[list[str]], bool] = lambda _frame: False,
    seconds: float = 120,
) -> Session:
    """Run a program on a terminal of this size; press Ctrl-C once, at the first frame for which *interrupt* is true."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(
        arguments,
        cwd=folder,
        env={**environment, "TERM": "xterm"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        # So that Ctrl-C on it is a signal to the program and its workers.
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(terminal)
    screen, frames, output = Screen(columns, rows), [], ""
    deadline, pressed, rest = time.monotonic() + seconds, False, b""
    try:
        while time.monotonic() < deadline:
            try:
                rest += os.read(controller, 65536)
            except OSError:  # the other end is closed
                break
            # A read may end within a character, or within a control sequence.
            whole = max(rest.rfind(b"\n") + 1, rest.rfind(b"h", rest.rfind(b"\x1b") + 1) + 1)
            text, rest = rest[:whole].decode(), rest[whole:]
            output += text
            for frame in screen.feed(text):
                frames.append(frame)
                if not pressed and interrupt(frame):
                    os.write(controller, b"\x03")
                    pressed = True
        output += rest.decode()
        frames += screen.feed(rest.decode())
        return Session(process.wait(10), output, screen, frames)
    finally:
        process.kill()
        process.wait()
        os.close(controller)

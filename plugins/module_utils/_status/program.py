# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program `workstation-status`: how is this machine, and who uses its GPUs.

It reads snapshots and /proc, and never asks the driver: a driver that hangs does not stop it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import termios
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import json_text
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import write_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._status import fleet, page, text
from ansible_collections.rigwright.workstation.plugins.module_utils._status.collect import Collector, Settings
from ansible_collections.rigwright.workstation.plugins.module_utils._status.model import View

SETTINGS = "/etc/rigwright/status.json"
# Time between the two readings of counters that `--once` makes rates of.
_SAMPLE_S = 0.2
_LONGEST_S = 86400
_ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# Of console_codes(4): no blanking of the console, no cursor.
_START, _END = "\x1b[9;0]\x1b[?25l\x1b[H\x1b[J", "\x1b[0m\x1b[?25h\x1b[H\x1b[J"


def main(argv: t.Sequence[str] | None = None) -> int:
    """Show the state once, repeatedly on a terminal, or in files."""
    options = parser().parse_args(argv)
    try:
        settings = settings_of(Tree().text(SETTINGS))
        collector = Collector(settings)

        def view() -> View:
            now = time.time()
            return fleet.view(options.fleet, now, settings.interval_s) if options.fleet else collector.view(now)

        if options.tty:
            return Terminal(options.size).run(view, settings.interval_s)
        if options.html or options.line:
            return write(options, view, settings.interval_s)
        if not options.fleet:
            collector.view(time.time())
            time.sleep(_SAMPLE_S)
        columns, rows = options.size or shutil.get_terminal_size()
        # What scrolls has room for all lines.
        height = rows if options.size or sys.stdout.isatty() else 10_000
        for line in text.lines(view(), columns, height):
            put(f"{text.coloured(line) if sys.stdout.isatty() else plain(line)}\n")
    except (OSError, ValueError) as error:
        sys.stderr.write(f"workstation-status: {error}\n")
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    found = argparse.ArgumentParser(
        prog="workstation-status", description="Show how this machine is, and who uses its GPUs."
    )
    how = found.add_mutually_exclusive_group()
    how.add_argument("--once", action="store_true", help="print the state and end (the default)")
    how.add_argument("--tty", action="store_true", help="show it on this terminal until Ctrl-C")
    how.add_argument("--html", metavar="FILE", help="write it as one page that needs no server")
    found.add_argument("--line", metavar="FILE", help="write the line that is printed at login")
    found.add_argument("--repeat", action="store_true", help="write the files again at each interval")
    found.add_argument("--fleet", metavar="DIR", help="show the hosts whose GPU snapshots a directory has")
    found.add_argument(
        "--size", metavar="COLUMNSxROWS", type=size, help="size of the screen, instead of the terminal's"
    )
    return found


def size(given: str) -> tuple[int, int]:
    """Parse a size, such as `53x20`."""
    found = re.fullmatch(r"([1-9]\d{0,3})x([1-9]\d{0,3})", given)
    if not found:
        raise argparse.ArgumentTypeError(f"{given!r} is no size such as 80x24")
    return int(found[1]), int(found[2])


def settings_of(content: str) -> Settings:
    """Return the settings of the role, and the defaults without the role.

    :raises ValueError: the file is damaged.
    """
    found = json_text.parse(content or "{}")
    if not isinstance(found, dict):
        raise ValueError(f"{SETTINGS} has no object")
    seconds = {name: json_text.number(found.get(name)) for name in Settings._fields}
    return Settings(
        **{name: int(min(max(value, 1), _LONGEST_S)) for name, value in seconds.items() if value is not None}
    )


def put(output: str) -> None:
    """Write to standard output as UTF-8, whatever the locale is: the console reads it so."""
    sys.stdout.flush()
    rest = output.encode("utf-8", errors="replace")
    while rest:
        rest = rest[os.write(sys.stdout.fileno(), rest) :]


def plain(line: text.Line) -> str:
    return "".join(piece for piece, _level in line).rstrip()


def wait(seconds: float) -> int:
    """Wait for a signal, and return its number; 0 after *seconds* without one."""
    caught = signal.sigtimedwait({*_ENDS, signal.SIGWINCH}, seconds)
    return caught.si_signo if caught else 0


def write(options: argparse.Namespace, view: t.Callable[[], View], interval_s: int) -> int:
    """Write the files, with `--repeat` until a signal ends the program; a failed write is reported once, and tried again."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {*_ENDS, signal.SIGWINCH})
    reported = ""
    while True:
        try:
            current = view()
            if options.html:
                write_file(os.path.abspath(options.html), page.page(current))
            if options.line:
                write_file(os.path.abspath(options.line), f"{text.brief(current)}\n")
            problem = ""
        except OSError as error:
            problem = f"workstation-status: {error}\n"
        if problem and problem != reported:
            sys.stderr.write(problem)
            sys.stderr.flush()
        reported = problem
        if not options.repeat:
            return 1 if problem else 0
        if wait(interval_s) in _ENDS:
            return 0


class Terminal:
    """A display on the terminal of standard output, which gets back its modes at the end."""

    def __init__(self, fixed: tuple[int, int] | None) -> None:
        self.fixed = fixed

    def run(self, view: t.Callable[[], View], interval_s: int) -> int:
        """Draw a view at each interval, and when the size changes, until a signal ends the program."""
        handle = sys.stdout.fileno()
        if not os.isatty(handle):
            raise ValueError("--tty needs a terminal: use --once")
        signal.pthread_sigmask(signal.SIG_BLOCK, {*_ENDS, signal.SIGWINCH})
        # A stopped display would keep a console without a login.
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        before = termios.tcgetattr(handle)
        quiet = [*before]
        # Ctrl-S on the keyboard would stop the display, and it would look fresh.
        quiet[0] &= ~termios.IXON
        quiet[3] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(handle, termios.TCSANOW, quiet)
        try:
            put(_START if os.environ.get("TERM") == "linux" else _START[len("\x1b[9;0]") :])
            while True:
                put(self.frame(view(), handle))
                termios.tcflush(handle, termios.TCIFLUSH)
                number = wait(interval_s)
                if number in _ENDS:
                    # systemd ends the display by SIGTERM. After any other end, its unit has failed, and starts the login.
                    return 0 if number == signal.SIGTERM else 128 + number
        finally:
            put(_END)
            termios.tcsetattr(handle, termios.TCSANOW, before)

    def frame(self, view: View, handle: int) -> str:
        """Return what draws a view over the last one, without a flash."""
        columns, rows = self.fixed or os.get_terminal_size(handle)
        # A serial line or a new terminal may have no size.
        columns, rows = columns or 80, rows or 24
        lines = text.lines(view, columns, rows)
        # Each line is cleared before it is written: after a full one, the cursor is still on its last character.
        drawn = "\r\n".join(f"\x1b[K{text.coloured(line)}" for line in lines)
        return f"\x1b[H{drawn}" + ("\r\n\x1b[J" if len(lines) < rows else "")

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Progress of a copy for people, and for processes that wait for it."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import threading
import time

from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.folder import Folder
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.text import format_size, say, shown


class Progress:
    """The progress of a copy: a bar on a terminal, a line every ten seconds elsewhere, and a file for processes that wait."""

    def __init__(self, name: str, quiet: bool, action: str = "copying") -> None:
        self.name, self.quiet, self.what = shown(name), quiet, action
        self.terminal = not quiet and sys.stderr.isatty()
        self.lock = threading.Lock()
        self.done = self.written = self.total = 0
        # How often each byte is counted: once when it is copied, once more when it is read back.
        self.passes = 1
        self.first: tuple[float, int] | None = None
        self.folder: Folder | None = None
        self.shown_at = self.written_at = time.monotonic()
        self.drawn = False

    def add(self, count: int, written: int = 0) -> None:
        with self.lock:
            self.done += count
            self.written += written

    def tick(self) -> None:
        """Update the display and the file; the thread that waits for the work calls it now and then."""
        now = time.monotonic()
        if self.folder and now - self.written_at >= 1:
            self.written_at = now
            state = {"done": self.done // self.passes, "written": self.written, "total": self.total}
            with contextlib.suppress(OSError):
                self.folder.replace("progress", json.dumps(state))
        self.show(self.done // self.passes, self.total)

    def show(self, done: int, total: int) -> None:
        now = time.monotonic()
        # A process that waits comes in the middle: the rate counts only what is done from then on.
        self.first = self.first or (now, done)
        if self.quiet or now - self.shown_at < (0.2 if self.terminal else 10):
            return
        self.shown_at = now
        share = done / total if total else 0.0
        rate = (done - self.first[1]) / max(now - self.first[0], 0.001)
        remaining = f"{clock(max(total - done, 0) / rate)} left" if rate > 0 and total else ""
        text = f"{self.what} {self.name}: {share:4.0%} of {format_size(total)}, {format_size(rate)}/s {remaining}"
        if self.terminal:
            columns = shutil.get_terminal_size().columns
            room = columns - len(text) - 4
            drawn = f" [{'#' * int(room * share)}{' ' * (room - int(room * share))}]" if room >= 10 else ""
            sys.stderr.write(f"\r\x1b[K{(text + drawn)[: columns - 1]}")
            sys.stderr.flush()
            self.drawn = True
        else:
            say(text)

    def end(self) -> None:
        if self.drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self.drawn = False


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(min(seconds, 359_999)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

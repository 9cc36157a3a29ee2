"""Progress that a person can follow: what is being done now, and how many seconds it took.

Every program of the project speaks this way, script/bootstrap included:

    ==> build the image debian12
    ==> build the image debian12: 21.4 s
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

BOLD, RED, RESET = "\033[1m", "\033[31m", "\033[0m"


def say(text: str, *, style: str = BOLD) -> None:
    """Print one progress line at once; in `style` on a terminal, plain elsewhere."""
    line = f"==> {text}"
    if sys.stdout.isatty():
        line = f"{style}{line}{RESET}"
    # One write a line: steps that run side by side must not mix inside a line.
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


@contextmanager
def step(label: str) -> Iterator[None]:
    """Announce `what`, run the block, and say how many seconds it took or that it failed."""
    say(label)
    start = time.monotonic()
    try:
        yield
    except BaseException:
        say(f"{label}: failed after {time.monotonic() - start:.1f} s", style=RED)
        raise
    say(f"{label}: {time.monotonic() - start:.1f} s")

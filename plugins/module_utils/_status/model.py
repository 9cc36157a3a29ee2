# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The model that all displays render: sections of rows, each with the time of its source. Pure."""

from __future__ import annotations

import typing as t

OK, DIM, WARN, FAIL = "ok", "dim", "warn", "fail"
# Row ranks: essential on a small screen, usual, detail.
ESSENTIAL, USUAL, DETAIL = range(3)
# A source is stale when it is older than this many of its intervals.
INTERVALS = 3

_GIB = 1 << 30
_YEAR_S = 365 * 86400


class Row(t.NamedTuple):
    """A line of a display.

    ``values``: in the order of their importance, so that a narrow display leaves out the last ones; ``share``: of a bar, from 0 to 1;
    ``time`` and ``limit_s``: of a source of its own, 0 for that of the section; ``brief``: its part of the line at login.
    """

    label: str
    values: tuple[str, ...] = ()
    share: float | None = None
    level: str = OK
    rank: int = ESSENTIAL
    time: float = 0.0
    limit_s: float = 0.0
    brief: str = ""


class Section(t.NamedTuple):
    """Rows of one subject. ``time``: when its source was written; ``limit_s``: the age from which it is stale, 0 for never."""

    title: str
    rows: tuple[Row, ...] = ()
    time: float = 0.0
    limit_s: float = 0.0


class View(t.NamedTuple):
    """All that a display shows. ``now``: in seconds since 1970; ``refresh_s``: when the next one is due."""

    host: str
    now: float
    sections: tuple[Section, ...] = ()
    uptime_s: float = 0.0
    refresh_s: int = 15


def problems(view: View) -> int:
    """Count the rows that report a failure."""
    return sum(row.level == FAIL for section in view.sections for row in section.rows)


def stale(source: Row | Section, now: float) -> str:
    """Return the mark of a source that is too old, such as `stale 46 s`; empty for a fresh one, or one without a time."""
    if not source.limit_s:
        return ""
    age = now - source.time
    if age > source.limit_s:
        return f"stale {duration(age)}"
    # After a clock step the age of a source is unknown.
    return "time in the future" if -age > source.limit_s else ""


def duration(seconds: float) -> str:
    """Return a duration in its largest unit, such as `46 s`, `12 min`, `5 h` or `3 d`."""
    seconds = min(max(seconds, 0.0), 100 * _YEAR_S)
    for unit, size, limit in (("s", 1, 120), ("min", 60, 120 * 60), ("h", 3600, 48 * 3600), ("d", 86400, 2 * _YEAR_S)):
        if seconds < limit:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds // _YEAR_S)} y"


def gib(size: float) -> str:
    """Return bytes in GiB, with a decimal below 100 GiB and without a unit."""
    number = max(size, 0.0) / _GIB
    return f"{number:.1f}" if number < 99.95 else f"{number:.0f}"


def rate(size: float) -> str:
    """Return bytes a second, such as `1.2 MB/s`."""
    for unit in ("B", "kB", "MB"):
        if size < 999.5:
            return f"{size:.0f} {unit}/s" if unit == "B" or size >= 99.5 else f"{size:.1f} {unit}/s"
        size /= 1000
    return f"{min(size, 9e9):.1f} GB/s"


def percent(share: float) -> str:
    return f"{min(max(share, 0.0), 9.99) * 100:.0f}%"

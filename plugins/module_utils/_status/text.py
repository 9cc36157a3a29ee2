# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Render a view as lines of text that fit a screen, in the characters that the Linux console has. Pure.

Code page 437 is what every font of the console has: letters of western Europe, lines and blocks. Any other character is a question mark.
"""

from __future__ import annotations

import itertools
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import clip
from ansible_collections.rigwright.workstation.plugins.module_utils._status import model
from ansible_collections.rigwright.workstation.plugins.module_utils._status.model import Row, Section, View

# A piece of a line and its level.
Span = tuple[str, str]
Line = tuple[Span, ...]

CHARACTERS = frozenset(bytes([*range(0x20, 0x7F), *range(0x80, 0xFF)]).decode("cp437"))
_LINE, _BAR, _GAP, _DIVIDER = "\u2500", "\u2588", "\u2591", "\u2502"
_HEADING = "heading"
# SGR of console_codes(4); 90 is the bright black of 16 colours.
_STYLES = {_HEADING: "1", model.DIM: "90", model.WARN: "33", model.FAIL: "1;31"}
_TWO_COLUMNS = 120


def lines(view: View, columns: int, rows: int) -> list[Line]:
    """Return at most *rows* lines of at most *columns* characters; what does not fit is counted in the last line."""
    found = [_header(view, columns)]
    height = rows - len(found)
    if columns < _TWO_COLUMNS:
        found += _fit(view.sections, view.now, columns, height)
    else:
        width = (columns - 3) // 2
        halves = [_fit(part, view.now, width, height) for part in _halves(view.sections)]
        for first, second in itertools.zip_longest(*halves, fillvalue=()):
            padding = " " * (width - length(first))
            found.append((*first, (padding, model.OK), (f" {_DIVIDER} ", model.DIM), *second))
    return found[: max(rows, 0)]


def plain(view: View, columns: int, rows: int) -> list[str]:
    """Return the lines without colours."""
    return ["".join(text for text, _level in line).rstrip() for line in lines(view, columns, rows)]


def coloured(line: Line) -> str:
    """Return a line with the control sequences of its colours."""
    return "".join(f"\x1b[{_STYLES[level]}m{text}\x1b[0m" if level in _STYLES else text for text, level in line)


def brief(view: View) -> str:
    """Return the line that is printed at login: plain ASCII, at most 160 characters."""
    parts = [row.brief for section in view.sections for row in section.rows if row.brief]
    marks = [f"{section.title} {mark}" for section in view.sections if (mark := model.stale(section, view.now))]
    count = model.problems(view)
    if count:
        parts.append(f"{count} problem{'s' if count > 1 else ''}")
    text = f"{view.host} {_clock(view.now)[11:16]}: {', '.join([*marks, *parts])} (workstation-status)"
    return clip("".join(character if " " <= character <= "~" else "?" for character in text), 160)


def length(line: Line) -> int:
    return sum(len(text) for text, _level in line)


def safe(text: str) -> str:
    """Return a text of the characters that the console has."""
    return "".join(character if character in CHARACTERS else "?" for character in text)


def _header(view: View, columns: int) -> Line:
    host, clock = safe(view.host), _clock(view.now)
    up = f"up {model.duration(view.uptime_s)}" if view.uptime_s else ""
    for right in (f"{up}  {clock}".strip(), clock, clock[11:16]):
        if len(host) + 2 + len(right) <= columns:
            return (host, _HEADING), (" " * (columns - len(host) - len(right)), model.OK), (right, model.DIM)
    return ((clip(host, columns), _HEADING),)


def _clock(now: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    except (OverflowError, ValueError, OSError):
        return "unknown time".ljust(19)


def _halves(sections: t.Sequence[Section]) -> tuple[t.Sequence[Section], t.Sequence[Section]]:
    """Split sections between two columns of about the same length."""
    sizes = [len(section.rows) + 1 for section in sections]
    best = min(range(1, len(sections) + 1), key=lambda at: max(sum(sizes[:at]), sum(sizes[at:])), default=0)
    return sections[:best], sections[best:]


def _fit(sections: t.Sequence[Section], now: float, width: int, height: int) -> list[Line]:
    """Render the rows that fit, the most urgent ones first; essential rows that do not fit are counted in the last line."""
    chosen, hidden = _choose(sections, now, height)
    if hidden:
        chosen, hidden = _choose(sections, now, height - 1)
    found = [
        line
        for section, rows in zip(sections, chosen)
        if rows
        for line in _section(section._replace(rows=tuple(rows)), now, width)
    ]
    more: list[Line] = [((clip(f"{hidden} more lines", width), model.WARN),)] if hidden and height > 0 else []
    return found + more


def _choose(sections: t.Sequence[Section], now: float, height: int) -> tuple[list[list[Row]], int]:
    """Return the rows of each section that fit below its title, and how many urgent and essential rows do not."""
    places = [
        (_urgency(row, now), at, place) for at, section in enumerate(sections) for place, row in enumerate(section.rows)
    ]
    chosen: list[set[int]] = [set() for _section in sections]
    used = hidden = 0
    for urgency, at, place in sorted(places):
        lines = 1 if chosen[at] else 2
        if used + lines <= height:
            chosen[at].add(place)
            used += lines
        elif urgency > model.ESSENTIAL:
            break
        else:
            hidden += 1
    return [[section.rows[place] for place in sorted(rows)] for section, rows in zip(sections, chosen)], hidden


def _urgency(row: Row, now: float) -> int:
    """Return the rank of a row; problems come before all others."""
    return model.ESSENTIAL - 1 if row.level in (model.WARN, model.FAIL) or model.stale(row, now) else row.rank


def _section(section: Section, now: float, width: int) -> t.Iterator[Line]:
    mark = model.stale(section, now)
    title = clip(safe(section.title), width)
    right = f" {mark}" if mark else ""
    filler = width - len(title) - len(right) - 1
    if filler < 0:
        yield ((clip(title + right, width), model.WARN if mark else _HEADING),)
    else:
        yield (title, _HEADING), (f" {_LINE * filler}", model.DIM), (right, model.WARN)
    shown = section.rows
    labels = min(max((len(row.label) for row in shown), default=0), max(width // 3, 1))
    bars = (width - labels) // 5
    for row in shown:
        yield _row(row, now, width, labels, bars, bool(mark))


def _row(row: Row, now: float, width: int, labels: int, bars: int, is_stale: bool) -> Line:
    mark = model.stale(row, now)
    level = model.DIM if is_stale else model.WARN if mark and row.level == model.OK else row.level
    label = f"{clip(safe(row.label), labels):{labels}} "
    bar: Line = ()
    if row.share is not None and bars >= 5:
        filled = min(max(round(row.share * bars), 0), bars)
        bar = ((_BAR * filled, level), (_GAP * (bars - filled), model.DIM), (" ", level))
    space = width - len(label) - length(bar)
    line = ((label, level), *bar, (_join([*([mark] if mark else []), *row.values], space), level))
    return line if length(line) <= width else ((clip(label.rstrip(), width), level),)


def _join(values: t.Sequence[str], space: int) -> str:
    """Join the first values that fit; the first of all is shortened when it does not."""
    text = ""
    for value in values:
        longer = f"{text}  {safe(value)}" if text else clip(safe(value), max(space, 0))
        if len(longer) > space:
            break
        text = longer
    return text

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names and values of other people in errors and tables: short, on one line, and nothing that changes a terminal. Pure."""

from __future__ import annotations

import difflib
import re
import typing as t

# Characters of a name or a value.
MOST = 60


def nearest(name: str, names: t.Iterable[str]) -> str:
    """Return the names that resemble *name*, as the end of a remedy. Spaces, dashes and capitals make no difference."""
    plain = {re.sub(r"[\W_]", "", each.casefold()): each for each in sorted(names)}
    near = difflib.get_close_matches(re.sub(r"[\W_]", "", name[:MOST].casefold()), plain, 4, 0.4)
    return ", ".join([plain[each] for each in near] or list(plain.values())[:12])


def short(value: t.Any) -> str:
    """Return a value as Python writes it."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of more than 4300 digits.
        text = "a number of thousands of digits"
    return text if len(text) <= MOST else f"{text[:MOST]}..."


def name(text: str) -> str:
    """Return a name without quotes."""
    return printable(text[:MOST])


def printable(text: str) -> str:
    """Return a text without control characters."""
    return "".join(each if each.isprintable() else "?" for each in text)

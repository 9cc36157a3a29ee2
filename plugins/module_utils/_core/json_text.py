# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read JSON that others may have written: no more of it, no deeper and no other numbers than a reader means. Pure."""

from __future__ import annotations

import json
import math
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject

LIMIT = 1 << 20
# Deeper than any file of this collection, and far from Python's own limit.
DEPTH = 32
# Digits of a whole number: Python before 3.11 takes minutes for a megabyte of them.
_DIGITS = 30
# What no count, size or time reaches.
_MOST = 10**15


def parse(content: bytes | str, limit: int = LIMIT) -> t.Any:
    """Return the value of a JSON text.

    :param limit: bytes that it may have at most.
    :raises ValueError: it is damaged or too large, nested too deeply, has a key twice, or a number that is none or endless.
    """
    data = content.encode("utf-8", errors="surrogatepass") if isinstance(content, str) else content
    if len(data) > limit:
        raise ValueError(f"it is larger than {limit} bytes")
    try:
        found = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_float,
            parse_int=_whole,
            parse_float=_float,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _check_depth(found)
    return found


def number(value: t.Any, least: float = -_MOST) -> float | None:
    """Return a number that a count, a size or a time can have, and None for anything else: a boolean, text, infinity."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= _MOST:
        return None
    return float(value)


def _object(pairs: list[tuple[str, t.Any]]) -> JsonObject:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("it has a key twice")
    return found


def _whole(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError(f"it has a number of {len(text)} digits")
    return int(text)


def _float(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(f"it has {text[:_DIGITS]} for a number")
    return found


def _check_depth(found: t.Any) -> None:
    level = [found]
    for _depth in range(DEPTH + 1):
        level = [
            value
            for each in level
            if isinstance(each, (dict, list))
            for value in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise ValueError("it is nested too deeply")

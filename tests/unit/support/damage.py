# SPDX-License-Identifier: GPL-3.0-or-later
"""What a disk error, a full disk, an editor or another program leaves of a record."""

from __future__ import annotations

from collections.abc import Callable

DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _good: b"",
    "blank": lambda _good: b" \n",
    "zeros": lambda good: b"\0" * len(good),
    "half": lambda good: good[: len(good) // 2],
    "without its end": lambda good: good.rstrip()[:-1],
    "twice": lambda good: good + good,
    "no UTF-8": lambda _good: b'{"\xff\xfe": 1}',
    "a list": lambda _good: b"[1]",
    "null": lambda _good: b"null",
    "a number": lambda _good: b"7",
    "a text": lambda _good: b'"record"',
    "endless nesting": lambda _good: b'{"a":' * 100_000,
}

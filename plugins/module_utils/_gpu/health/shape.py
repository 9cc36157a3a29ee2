# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The shape of the state of the last check. What does not have it is damaged, and would end every later check. Pure."""

from __future__ import annotations

import typing as t

Check = t.Callable[[t.Any], bool]

_MOST = 1e300


def is_number(value: t.Any) -> bool:
    """Check for a number that can be calculated with. Python's JSON also has NaN, and whole numbers of any length."""
    return type(value) in (int, float) and abs(value) < _MOST


def is_whole(value: t.Any) -> bool:
    """Check for a whole number."""
    return type(value) is int


def is_text(value: t.Any) -> bool:
    """Check for text."""
    return isinstance(value, str)


def or_null(check: Check) -> Check:
    """Return a check that null passes, too."""
    return lambda value: value is None or check(value)


def rows_of(check: Check) -> Check:
    """Return a check for a list."""
    return lambda value: isinstance(value, list) and all(map(check, value))


def row_of(*checks: Check) -> Check:
    """Return a check for a list with one value for each check."""
    return lambda value: (
        isinstance(value, list) and len(value) == len(checks) and all(check(cell) for check, cell in zip(checks, value))
    )


def map_of(check: Check, key: Check = is_text) -> Check:
    """Return a check for an object."""
    return lambda value: isinstance(value, dict) and all(map(key, value)) and all(map(check, value.values()))


def object_of(needed: t.Mapping[str, Check], other: t.Mapping[str, Check]) -> Check:
    """Return a check for an object with these keys. Keys of later versions are left alone."""
    checks = {**needed, **other}
    return lambda value: (
        isinstance(value, dict)
        and value.keys() >= needed.keys()
        and all(check(value[key]) for key, check in checks.items() if key in value)
    )


_XID = object_of(
    {"code": is_whole, "pci_address": is_text, "time": or_null(is_number), "pid": or_null(is_whole)},
    {
        "process": or_null(is_text),
        "gpu_instance": or_null(is_whole),
        "text": is_text,
        "stamped": or_null(is_number),
    },
)
_SXID = object_of(
    {"code": is_whole, "switch": is_text, "pci_address": is_text, "time": or_null(is_number)}, {"text": is_text}
)
_GPU = object_of(
    {
        "uuid": or_null(is_text),
        "name": or_null(is_text),
        "counters": map_of(or_null(is_number)),
        "links": rows_of(is_whole),
        "recovery_action": or_null(is_text),
        "recovered_at": or_null(is_number),
        "boots": map_of(map_of(is_number), str.isdecimal),
    },
    {
        "seen": lambda value: isinstance(value, bool),
        "absent_in": map_of(is_number),
        # Code, time, process and place of an Xid.
        "events": map_of(rows_of(row_of(is_whole, is_number, or_null(is_whole), is_text))),
        "pages": rows_of(row_of(is_number, is_number)),
        "xids": rows_of(_XID),
    },
)
is_state = object_of(
    {"time": is_number, "boot": is_text, "gpus": map_of(_GPU)},
    {
        "booted": is_number,
        "read_at": is_number,
        "sxids": rows_of(_SXID),
        "unsupported": rows_of(is_text),
        "no_room": map_of(is_whole),
    },
)

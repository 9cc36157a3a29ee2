# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the role: sizes and times with their units, and what is wrong with a request. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem

_MEMORY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?(MiB|GiB|M|G)", re.IGNORECASE)
_MIB = {"m": 1, "g": 1024}
_TIME = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?(s|min|m|h|d)")
_SECONDS = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}
OFF = "never"
# A shorter time calls a pause between two steps of a training idle.
LEAST_IDLE_S = 60
INTERVALS = (5, 300)
KEPT = (31, 3660)


def memory_mib(text: str) -> int:
    """Return a size in MiB.

    :raises ValueError: it is no size.
    """
    match = _MEMORY.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is no size: write it as 512 MiB or 18 GiB")
    return round(float(match[1]) * _MIB[match[2][0].lower()])


def seconds(text: str) -> int:
    """Return a time in seconds; 0 for ``never``.

    :raises ValueError: it is no time.
    """
    if text.strip() == OFF:
        return 0
    match = _TIME.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is no time: write it as 90min or 2h, or `{OFF}`")
    return round(float(match[1]) * _SECONDS[match[2]])


class Request(t.TypedDict):
    """The options of the role, and what it needs besides."""

    state: str
    interval_s: int
    keep_days: int
    idle_memory: str
    idle_after: str
    textfile_directory: str
    containers: bool
    python: str
    account: str
    planned: t.Mapping[str, object]


def problems(request: Request) -> list[Problem]:
    """Return what is wrong with a request, for the action ``plan``."""
    found = []
    for name, value, (least, most), unit in (
        ("interval_s", request["interval_s"], INTERVALS, "seconds"),
        ("keep_days", request["keep_days"], KEPT, "days"),
    ):
        if not least <= value <= most:
            found.append(problem(f"gpu_usage_{name}", f"is {value}", f"set it to {least} to {most} {unit}"))
    idle_remedy = f"set it to a time with its unit, such as 2h, at least a minute, or to `{OFF}`"
    for name, text, read, remedy in (
        ("idle_memory", request["idle_memory"], memory_mib, "set it to a size with its unit, such as 1GiB"),
        ("idle_after", request["idle_after"], _idle_seconds, idle_remedy),
    ):
        try:
            read(text)
        except ValueError as error:
            found.append(problem(f"gpu_usage_{name}", f"is not valid: {error}", remedy))
    if not re.fullmatch(r"(/[^/\s%]+)*", request["textfile_directory"]):
        found.append(
            problem(
                "gpu_usage_textfile_directory",
                "is not an absolute path without spaces",
                "set it to node_exporter's directory, such as /var/lib/prometheus/node-exporter, or leave it empty",
            )
        )
    return found


def _idle_seconds(text: str) -> int:
    found = seconds(text)
    if 0 < found < LEAST_IDLE_S:
        raise ValueError(f"{text!r} is less than a minute")
    return found

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long a measurement takes, and where it is: lines in a file, which the action shows while the module runs."""

from __future__ import annotations

import contextlib
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import open_file
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import loads, program
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.figures import BUS_TESTS
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.rows import Request

Report = t.Callable[[str], object]
# To start all programs, for the memory test and for copies between GPUs; and for the data of one GPU (measured: docs/gpu_accept.md).
_ONCE_S, _CARD_S = 25, 5


def silent(_text: str) -> None:
    """Show nothing."""


def writer(path: str | None) -> Report:
    """Return a function that appends a line to a file."""

    def write(text: str) -> None:
        # The measurement is worth more than its progress.
        with contextlib.suppress(OSError):
            # The directory is of the user who logs in, and may have a link here.
            handle = open_file(t.cast(str, path), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            with open(handle, "a", encoding="utf-8") as file:
                file.write(f"{text}\n")

    return write if path else silent


def seconds_alone(request: Request) -> float:
    """Return about how long one GPU is measured alone."""
    window, bus = request["window_s"], min(program.BUS_S, request["window_s"])
    rounds = (len(request["dtypes"]) + 1) * _with_settling(window) + len(BUS_TESTS) * _with_settling(bus)
    return float(request["warm_up_s"] + request["windows"] * rounds + request["burn_in_s"] + _CARD_S)


def _with_settling(seconds: float) -> float:
    return seconds + min(loads.SETTLE_S, seconds / 4)


def plan_text(requests: t.Sequence[Request]) -> str:
    """Return how many GPUs are measured, and about how long it takes."""
    seconds = _ONCE_S + sum(map(seconds_alone, requests))
    number = f"{len(requests)} GPU{'' if len(requests) == 1 else 's'}"
    return f"{number} to measure, which takes about {minutes(seconds)}"


def minutes(seconds: float) -> str:
    """Return a time as people read it."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The baselines of GPUs on the disk: one JSON file for each UUID."""

from __future__ import annotations

import json
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.root_directories import make_directories
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.shape import is_number
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

# The conditions on which the figures depend. Reports are compared where all of them are the same.
CIRCUMSTANCES = ("name", "torch", "side", "power_limit_w", "warm_up_s", "window_s")
KEPT = ("value", "unit", "clock_mhz", "power_w", "temperature_c")
_NUMBERS = ("value", "power_w", "temperature_c")


class Kept(t.TypedDict, total=False):
    """The figures of a test in a baseline, or in the middle of several cards."""

    value: float | None
    unit: str
    clock_mhz: float | None
    power_w: float | None
    temperature_c: float | None


class Baseline(t.TypedDict):
    """The baseline of a card."""

    uuid: str
    day: str
    driver: str | None
    name: str | None
    torch: str | None
    side: int | None
    power_limit_w: float | None
    warm_up_s: float | None
    window_s: float | None
    tests: dict[str, Kept]


def path_of(directory: str, uuid: str) -> str:
    """Return the path of a GPU's baseline."""
    return os.path.join(directory, f"{uuid}.json")


def read(directory: str, uuid: str | None) -> Baseline | None:
    """Read the baseline of a GPU; None where there is none.

    :raises Refusal: the file cannot be read, or is not the baseline of this GPU.
    """
    if uuid is None or not os.path.exists(path_of(directory, uuid)):
        return None
    try:
        with open(path_of(directory, uuid), encoding="utf-8") as file:
            found: Baseline = json.load(file)
        if not is_baseline(found) or found["uuid"] != uuid:
            raise ValueError("it belongs to another GPU, or is no baseline")
    except (OSError, ValueError, RecursionError) as error:
        path = path_of(directory, uuid)
        raise Refusal(f"`directory`: the baseline {path} is damaged ({error}): restore it, or remove it") from error
    return found


def is_baseline(found: t.Any) -> bool:
    """Check that a comparison finds every value that it needs: it comes after minutes of measuring."""
    if not isinstance(found, dict) or not found.keys() >= {"uuid", "day", "tests", *CIRCUMSTANCES}:
        return False
    tests = found["tests"]
    return isinstance(tests, dict) and all(map(_is_row, tests.values()))


def _is_row(row: t.Any) -> bool:
    if not isinstance(row, dict) or not row.keys() >= set(KEPT) or row["value"] is None:
        return False
    numbers = [row[key] for key in _NUMBERS if row[key] is not None]
    return all(map(is_number, numbers))


def write(directory: str, baseline: Baseline) -> None:
    """Write the baseline of a GPU, and create the directory.

    :raises OSError: it cannot be written.
    """
    make_directories(directory)
    replace_file(path_of(directory, baseline["uuid"]), text_of(baseline))


def text_of(baseline: Baseline | None) -> str:
    """Return the content of a baseline's file; empty without a baseline."""
    return "" if baseline is None else json.dumps(baseline, indent=1, sort_keys=True) + "\n"

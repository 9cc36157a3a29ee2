# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The baselines of GPUs on the disk: one JSON file for each UUID."""

from __future__ import annotations

import json
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

Facts = dict[str, t.Any]


def path_of(directory: str, uuid: str) -> str:
    """Return the path of a GPU's baseline."""
    return os.path.join(directory, f"{uuid}.json")


def read(directory: str, uuid: str | None) -> Facts | None:
    """Read the baseline of a GPU; None where there is none.

    :raises Refusal: the file cannot be read, or is not the baseline of this GPU.
    """
    if uuid is None or not os.path.exists(path_of(directory, uuid)):
        return None
    try:
        with open(path_of(directory, uuid), encoding="utf-8") as file:
            found: Facts = json.load(file)
        if found["uuid"] != uuid or not isinstance(found["tests"], dict):
            raise ValueError("it belongs to another GPU, or is no baseline")
    except (OSError, ValueError, KeyError, TypeError) as error:
        path = path_of(directory, uuid)
        raise Refusal(f"`directory`: the baseline {path} is damaged ({error}): restore it, or remove it") from error
    return found


def write(directory: str, baseline: Facts) -> None:
    """Write the baseline of a GPU, and create the directory.

    :raises OSError: it cannot be written.
    """
    os.makedirs(directory, mode=0o755, exist_ok=True)
    replace_file(path_of(directory, baseline["uuid"]), text_of(baseline))


def text_of(baseline: Facts | None) -> str:
    """Return the content of a baseline's file; empty without a baseline."""
    return "" if baseline is None else json.dumps(baseline, indent=1, sort_keys=True) + "\n"

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The request of gpu_accept: its checks, and the seconds of each phase."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.rows import Request
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

# All runs use the same random numbers, so that their products can be compared.
SEED = 6
DEFAULTS = {"warm_up_s": 30.0, "window_s": 10.0}
QUICK_DEFAULTS = {"warm_up_s": 5.0, "window_s": 2.0}
# The highest values end every run within days, and keep its events in memory.
_LIMITS = {"warm_up_s": (0, 3600), "window_s": (0.5, 3600), "windows": (1, 1000), "minutes": (0, 7 * 24 * 60)}


class Params(t.TypedDict):
    """The parameters of the module that say how to measure; None takes a default."""

    quick: bool
    warm_up_s: float | None
    window_s: float | None
    windows: int
    minutes: float
    memory_share: float
    user: str


def validate(params: Params) -> None:
    """Refuse values that cannot be measured with, before any program starts.

    :raises Refusal: the first of them.
    """
    for name, value in (
        ("warm_up_s", params["warm_up_s"]),
        ("window_s", params["window_s"]),
        ("windows", params["windows"]),
        ("minutes", params["minutes"]),
    ):
        least, most = _LIMITS[name]
        # NaN fails every comparison.
        if value is not None and not least <= value <= most:
            raise Refusal(f"`{name}` is {value:g}: give {least:g} to {most:g}")
    if not 0 <= params["memory_share"] <= 0.95:
        raise Refusal(f"`memory_share` is {params['memory_share']:g}: give 0 to 0.95: comparing needs memory, too")
    if os.geteuid() == 0 and accounts.user(params["user"]) is None:
        raise Refusal(f"There is no user {params['user']}: set `user` to one that exists")


def parse(params: Params) -> Request:
    """Return the request as the measuring program takes it, without the dtypes of a card."""
    defaults = QUICK_DEFAULTS if params["quick"] else DEFAULTS
    warm_up, window = params["warm_up_s"], params["window_s"]
    return {
        "warm_up_s": defaults["warm_up_s"] if warm_up is None else warm_up,
        "window_s": defaults["window_s"] if window is None else window,
        "windows": params["windows"],
        "burn_in_s": params["minutes"] * 60,
        "memory_share": params["memory_share"],
        "seed": SEED,
    }

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The request of a health check: the window of Xids, the limits, and what a host declares about its GPUs."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.reason import Limits
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

_WINDOW = re.compile(r"(\d+)([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
BOOT = "boot"


class Request(t.NamedTuple):
    """The declarations of a host about its GPUs."""

    # None: the number is not checked.
    expected_count: int | None = None
    # UUIDs, or addresses, of GPUs that were taken out.
    acknowledged: t.Sequence[str] = ()
    # Reasons that do not count.
    ignored: t.Sequence[str] = ()


def window_seconds(window: str) -> int | None:
    """Parse a window, such as `24h`; return None for the whole boot.

    :raises Refusal: it is no window.
    """
    found = _WINDOW.fullmatch(window)
    if window != BOOT and not found:
        raise Refusal(
            f"`window` is {window!r}: it is `boot`, or a number with s, m, h or d, as `24h`. Nothing was read."
        )
    return int(found[1]) * _UNITS[found[2]] if found else None


def limits_of(given: t.Mapping[str, t.Any] | None) -> Limits:
    """Return the limits of the collection, with the given ones in their place.

    :raises Refusal: a limit is unknown, or not above 0.
    """
    names = {field.name for field in dataclasses.fields(Limits)}
    limits = {name: value for name, value in (given or {}).items() if value is not None}
    unknown = sorted(limits.keys() - names)
    if unknown:
        raise Refusal(f"`limits` has {', '.join(unknown)}: there are {', '.join(sorted(names))}. Nothing was read.")
    low = sorted(name for name, value in limits.items() if value <= 0)
    if low:
        raise Refusal(
            f"`limits` has {', '.join(low)} at 0 or below: a healthy GPU would be reported. Nothing was read."
        )
    return Limits(**limits)

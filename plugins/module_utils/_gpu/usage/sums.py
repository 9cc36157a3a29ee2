# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sums of a day by user, kind and GPU: time held and busy, memory and energy. Pure.

Days are those of UTC. So a day has 86,400 s, whatever the clock of the host's time zone does.
"""

from __future__ import annotations

import dataclasses
import json
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import json_text
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.sample import Gpu, Process

FORMAT = 1
# 500 users on 16 GPUs.
LIMIT = 8 << 20
_NAME = 200
DAY_S = 86400
# An interval of more samples than these was not observed: the host slept, or the sampler did not run.
GAP = 3
# A clock before 2020 is not set yet.
_FIRST_TIME = 1577836800

Key = tuple[str, str, str]


@dataclasses.dataclass
class Use:
    """The use of a GPU: seconds in which it was held and busy, GiB seconds of its memory, and energy.

    ``unknown_s``: the part of ``held_s`` in which the GPU did not report who computed.
    """

    held_s: float = 0.0
    busy_s: float = 0.0
    gib_s: float = 0.0
    joules: float = 0.0
    unknown_s: float = 0.0

    def add(self, other: Use, part: float = 1.0) -> None:
        """Add a part of another use."""
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + part * getattr(other, field.name))


@dataclasses.dataclass
class Total:
    """Time and energy of a GPU, in use or not.

    ``unknown_joules``: the energy of the time in which the GPU did not report who computed.
    """

    name: str
    observed_s: float = 0.0
    joules: float = 0.0
    unknown_joules: float = 0.0


@dataclasses.dataclass
class Day:
    """The sums of a day. ``gpus`` has each GPU by its UUID."""

    day: str
    observed_s: float = 0.0
    gpus: dict[str, Total] = dataclasses.field(default_factory=dict)
    rows: dict[Key, Use] = dataclasses.field(default_factory=dict)


def day_of(moment: float) -> str:
    """Return the day of UTC at a time."""
    return time.strftime("%Y-%m-%d", time.gmtime(moment))


def counted_s(elapsed_s: float | None, interval_s: float) -> float:
    """Return the seconds since the last sample, and 0 where nobody knows what happened in them.

    :param elapsed_s: by a clock that is never set; None for the first sample.
    """
    return elapsed_s if elapsed_s is not None and 0 < elapsed_s <= GAP * interval_s else 0.0


def parts_of(end: float, seconds: float) -> dict[str, float]:
    """Divide an interval among the days that it covers, as shares of 1. Before the clock is set there is no day."""
    if seconds <= 0 or end < _FIRST_TIME:
        return {}
    midnight = end - end % DAY_S
    today = min(seconds, end - midnight)
    shares = {day_of(end): today / seconds, day_of(midnight - 1): 1 - today / seconds}
    return {day: share for day, share in shares.items() if share > 0}


def use_of(processes: t.Sequence[Process], seconds: float, joules: float) -> dict[tuple[str, str], Use]:
    """Return the use of one GPU in an interval by user and kind.

    A user holds a GPU once, however many processes they have. Energy follows the share of the SMs; what nobody computed for is nobody's.

    :param processes: as the snapshot has them, with ``held_s``, the seconds of the interval in which each was there.
    """
    found: dict[tuple[str, str], Use] = {}
    kinds: dict[str, set[str]] = {}
    total = sum(row["share_percent"] or 0 for row in processes)
    scale = 1 / max(100.0, total)
    for row in processes:
        share = (row["share_percent"] or 0) * scale
        use = found.setdefault((row["user"], row["kind"]), Use())
        use.held_s = max(use.held_s, row["held_s"])
        if row["share_percent"] is None:
            use.unknown_s = max(use.unknown_s, row["held_s"])
        use.busy_s += share * seconds
        use.gib_s += row["memory_mib"] / 1024 * row["held_s"]
        use.joules += joules * (row["share_percent"] or 0) / total if total else 0.0
        kinds.setdefault(row["user"], set()).add(row["kind"])
    for (user, _kind), use in found.items():
        use.held_s /= len(kinds[user])
        use.unknown_s /= len(kinds[user])
    return found


def add(day: Day, gpus: t.Sequence[Gpu], seconds: float, part: float) -> None:
    """Add a part of an interval to a day."""
    day.observed_s += seconds * part
    for gpu in gpus:
        total = day.gpus.setdefault(gpu["uuid"], Total(gpu["name"]))
        total.observed_s += seconds * part
        total.joules += gpu["joules"] * part
        uses = use_of(gpu["processes"], seconds, gpu["joules"])
        if any(row["share_percent"] is None for row in gpu["processes"]):
            total.unknown_joules += (gpu["joules"] - sum(use.joules for use in uses.values())) * part
        for (user, kind), use in uses.items():
            day.rows.setdefault((user, kind, gpu["uuid"]), Use()).add(use, part)


def as_text(day: Day) -> str:
    """Return the file of a day."""
    rows = [
        {"user": user, "kind": kind, "gpu": gpu, **_rounded(use)} for (user, kind, gpu), use in sorted(day.rows.items())
    ]
    gpus = {uuid: _rounded(gpu) for uuid, gpu in day.gpus.items()}
    content = {"format": FORMAT, "day": day.day, "observed_s": round(day.observed_s, 3), "gpus": gpus, "rows": rows}
    return json.dumps(content, sort_keys=True) + "\n"


def _rounded(row: Use | Total) -> dict[str, float | str]:
    return {name: value if isinstance(value, str) else round(value, 3) for name, value in vars(row).items()}


def from_text(text: str, name: str) -> Day:
    """Read the file of a day.

    :raises ValueError: it is damaged, of another format or of another day; the text says which.
    """
    try:
        content = json_text.parse(text, LIMIT)
        if content["format"] != FORMAT:
            raise ValueError(f"it has format {ascii(content['format'])[:20]}, and this program reads {FORMAT}")
        if content["day"] != name:
            raise ValueError(f"it is of the day {ascii(content['day'])[:20]}")
        day = Day(name, _sum(content, "observed_s"))
        for uuid, gpu in content["gpus"].items():
            sums = (_sum(gpu, field.name) for field in dataclasses.fields(Total)[1:])
            day.gpus[_text(uuid)] = Total(_text(gpu["name"]), *sums)
        for row in content["rows"]:
            use = Use(*(_sum(row, field.name) for field in dataclasses.fields(Use)))
            day.rows.setdefault((_text(row["user"]), _text(row["kind"]), _text(row["gpu"])), Use()).add(use)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"is damaged ({error})") from error
    return day


def _sum(row: t.Mapping[str, object], key: str) -> float:
    # Files of before November 2026 have no sums of what is unknown.
    found = json_text.number(row.get(key, 0.0) if key.startswith("unknown_") else row[key], 0)
    if found is None:
        raise ValueError(f"{key} is no sum")
    return found


def _text(value: t.Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a name is no text")
    return shown(value, _NAME)

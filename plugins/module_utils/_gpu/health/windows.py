# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counts over days and boots: repeated Xids, retired pages of a week, boots in which a GPU was missing. Pure."""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import reason as base
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_log as log
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.rows import Repeat

DAY_S, WEEK_S = 24 * 3600, 7 * 24 * 3600
# Code, time, process and place of an Xid.
Event = list[t.Any]
Events = dict[str, list[Event]]


# The most events of a boot that are kept.
_MOST = 1000
# They follow other Xids, or report the recovery action.
_NOT_COUNTED = frozenset({43, 45, log.RECOVERY_ACTION_CHANGED})
# The lines of one program within this time are one error, as in NVSentinel; without a process, those of one second.
_BURST_S, _SECOND = 180, 1


def events_with(before: Events, xids: t.Iterable[log.Xid], boot: str, now: float) -> Events:
    """Return the Xids of the last day by boot: earlier boots from the state, this boot from the log."""
    earliest = now - DAY_S
    found = {
        name: [event for event in events if event[1] >= earliest] for name, events in before.items() if name != boot
    }
    found[boot] = [
        [xid.code, now if xid.time is None else xid.time, xid.pid, xid.place]
        for xid in log.since(xids, earliest)
        if xid.code not in _NOT_COUNTED
    ]
    return {name: events[-_MOST:] for name, events in found.items() if events}


def repeats(events: Events) -> list[Repeat]:
    """Count each Xid, and find the place on the chip that has most of its lines."""
    by_code: dict[int, list[Event]] = {}
    for event in (event for events in events.values() for event in events):
        by_code.setdefault(event[0], []).append(event)
    found: list[Repeat] = []
    for code, rows in sorted(by_code.items()):
        places = collections.Counter(row[3] for row in rows if row[3])
        place, at_place = max(places.items(), key=lambda item: item[1], default=("", 0))
        if 2 * at_place <= sum(places.values()):
            # Errors all over the chip come from the program.
            place, at_place = "", 0
        found.append({"code": code, "count": _errors_in(rows), "place": place, "at_place": at_place})
    return found


def _errors_in(rows: t.Iterable[Event]) -> int:
    last: dict[t.Any, float] = {}
    count = 0
    for _code, time, pid, _place in sorted(rows, key=lambda row: row[1]):
        if pid not in last or time - last[pid] > (_SECOND if pid is None else _BURST_S):
            count += 1
        last[pid] = time
    return count


def pages_in_a_week(samples: t.Sequence[t.Sequence[float]], pages: int | None, now: float) -> int | None:
    """Return the number of pages that were retired within a week; None without an earlier sample.

    :param samples: time and number at earlier checks.
    """
    if pages is None or not samples:
        return None
    old = [number for time, number in samples if now - time >= WEEK_S]
    return max(0, pages - int(old[-1] if old else samples[0][1]))


def sampled(samples: t.Sequence[t.Sequence[float]], pages: int | None, now: float) -> list[list[float]]:
    """Add a sample once a day, and drop all but the newest of those older than a week."""
    if pages is None:
        return []
    # Drop samples of another card, or of counts that were cleared.
    kept = [list(sample) for sample in samples if sample[1] <= pages]
    if not kept or now - kept[-1][0] >= DAY_S:
        kept.append([now, pages])
    old = [sample for sample in kept if now - sample[0] >= WEEK_S]
    return kept[max(0, len(old) - 1) :]


def absent_in(
    before: t.Mapping[str, float], boot: str, now: float, is_absent: bool, remembered_s: float
) -> dict[str, float]:
    """Return the boots in which a GPU was missing, each with the last time of it. They are kept as long as it is missing."""
    if is_absent:
        return {**before, boot: now}
    return {name: time for name, time in before.items() if now - time <= remembered_s}


def double_bit_pages(card: t.Any) -> int | None:
    """Return the number of pages that were retired for double-bit errors."""
    return t.cast("int | None", base.at(card, "counters", "retired_pages", "double_bit"))

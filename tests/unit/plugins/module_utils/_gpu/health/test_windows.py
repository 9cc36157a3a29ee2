# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts over a day, a week, and boots."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import windows
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.xid_log import Xid

SLOT, NOW = "0000:41:00", 1_000_000.0
DAY = windows.DAY_S


def at(gpc: int) -> str:
    return f"Graphics SM Warp Exception on (GPC {gpc}, TPC 0, SM 1): Out Of Range"


def count(*xids: Xid) -> list[Any]:
    return windows.repeats(windows.events_with({}, xids, "one", NOW))


@pytest.mark.parametrize(
    ("times", "pid", "errors"),
    [
        ([0, 1, 2, 100], 7, 1),
        ([0, 200, 400], 7, 3),
        ([0, 0, 0.5], None, 1),
        ([0, 2, 4], None, 3),
    ],
)
def test_the_lines_of_one_program_at_once_are_one_error(times: list[float], pid: int | None, errors: int) -> None:
    (row,) = count(*(Xid(31, SLOT, NOW - time, pid) for time in times))
    assert row["count"] == errors


def test_place_counts_where_most_lines_name_it() -> None:
    (row,) = count(*(Xid(13, SLOT, NOW, 7, text=at(gpc)) for gpc in (1, 1, 1, 2)))
    assert (row["place"], row["at_place"]) == ("GPC 1, TPC 0", 3)
    (row,) = count(*(Xid(13, SLOT, NOW, 7, text=at(gpc)) for gpc in (1, 1, 2, 2)))
    assert (row["place"], row["at_place"]) == ("", 0)


def test_old_and_following_xids_are_not_counted() -> None:
    assert count(Xid(45, SLOT, NOW), Xid(154, SLOT, NOW), Xid(31, SLOT, NOW - DAY - 1)) == []
    assert [row["code"] for row in count(Xid(94, SLOT))] == [94]


def test_this_boot_is_read_again_and_earlier_boots_are_kept() -> None:
    first = windows.events_with({}, [Xid(94, SLOT, NOW)], "one", NOW)
    again = windows.events_with(first, [Xid(94, SLOT, NOW), Xid(94, SLOT, NOW + 60)], "one", NOW + 60)
    later = windows.events_with(again, [Xid(94, SLOT, NOW + 600)], "two", NOW + 600)
    assert [len(events) for events in (again["one"], later["one"], later["two"])] == [2, 2, 1]
    assert windows.events_with(later, [], "two", NOW + 2 * DAY) == {}


def test_pages_are_compared_with_the_oldest_sample_of_a_week() -> None:
    assert windows.pages_in_a_week([], 16, NOW) is None
    assert windows.pages_in_a_week([[NOW - DAY, 3]], 16, NOW) == 13
    old = [[NOW - 9 * DAY, 1], [NOW - 8 * DAY, 10], [NOW - DAY, 15]]
    assert windows.pages_in_a_week(old, 16, NOW) == 6
    assert windows.pages_in_a_week(old, None, NOW) is None


def test_one_sample_a_day_and_one_older_than_a_week_are_kept() -> None:
    samples: list[list[float]] = []
    for hour in range(24 * 20):
        samples = windows.sampled(samples, 5, NOW + hour * 3600)
    assert len(samples) == 8
    # Another card.
    assert windows.sampled(samples, 0, NOW + 21 * DAY) == [[NOW + 21 * DAY, 0]]
    assert windows.sampled(samples, None, NOW) == []


def test_boots_count_while_a_gpu_is_missing_and_3_days_after() -> None:
    away = windows.absent_in({"one": 0.0}, "two", NOW, True, 10)
    assert away == {"one": 0.0, "two": NOW}
    assert windows.absent_in(away, "two", NOW + 5, False, 10) == {"two": NOW}

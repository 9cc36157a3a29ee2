# SPDX-License-Identifier: GPL-3.0-or-later
"""Sums of a day, beside sums made by hand."""

from __future__ import annotations

import calendar
import json
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import sums
from hypothesis import given
from hypothesis import strategies as st

NOON = float(calendar.timegm((2026, 11, 25, 12, 0, 0)))
MIDNIGHT = NOON + 43200


def process(user: str, share: int | None, memory_mib: int = 1024, kind: str = "ssh", held_s: float = 15.0) -> Any:
    return {"user": user, "kind": kind, "share_percent": share, "memory_mib": memory_mib, "held_s": held_s}


def test_use_is_shared_by_the_share_of_the_sms() -> None:
    found = sums.use_of([process("alice", 60, 2048), process("bob", 20, 1024)], 15.0, 800.0)
    assert vars(found["alice", "ssh"]) == {
        "held_s": 15.0,
        "busy_s": 9.0,
        "gib_s": 30.0,
        "joules": 600.0,
        "unknown_s": 0.0,
    }
    assert vars(found["bob", "ssh"]) == {
        "held_s": 15.0,
        "busy_s": 3.0,
        "gib_s": 15.0,
        "joules": 200.0,
        "unknown_s": 0.0,
    }


def test_two_processes_of_a_user_hold_a_gpu_once() -> None:
    found = sums.use_of([process("alice", 10), process("alice", 10), process("alice", 0, kind="unit")], 15.0, 0.0)
    assert sum(use.held_s for use in found.values()) == 15.0
    assert found["alice", "ssh"].gib_s == 30.0


def test_energy_is_nobodys_while_nobody_computes() -> None:
    (use,) = sums.use_of([process("alice", 0)], 15.0, 800.0).values()
    assert (use.held_s, use.busy_s, use.joules) == (15.0, 0.0, 0.0)


def test_unknown_shares_count_as_held_only() -> None:
    (use,) = sums.use_of([process("alice", None)], 15.0, 800.0).values()
    assert (use.held_s, use.busy_s, use.joules) == (15.0, 0.0, 0.0)


def test_shares_beyond_100_percent_are_scaled() -> None:
    found = sums.use_of([process("alice", 100), process("bob", 100)], 10.0, 10.0)
    assert [use.busy_s for use in found.values()] == [5.0, 5.0]


@pytest.mark.parametrize(
    ("elapsed", "seconds"), [(15.2, 15.2), (45.0, 45.0), (45.1, 0.0), (0.0, 0.0), (-3600.0, 0.0), (None, 0.0)]
)
def test_long_interval_is_not_counted(elapsed: float | None, seconds: float) -> None:
    assert sums.counted_s(elapsed, 15) == seconds


def test_interval_over_midnight_is_divided() -> None:
    assert sums.parts_of(MIDNIGHT + 5, 20) == {"2026-11-26": 0.25, "2026-11-25": 0.75}
    assert sums.parts_of(NOON, 20) == {"2026-11-25": 1.0}
    assert sums.parts_of(MIDNIGHT, 20) == {"2026-11-25": 1.0}


def test_leap_day_is_a_day() -> None:
    leap = float(calendar.timegm((2028, 3, 1, 0, 0, 0)))
    assert sums.parts_of(leap, 15) == {"2028-02-29": 1.0}


def test_clock_that_is_not_set_counts_for_no_day() -> None:
    assert sums.parts_of(1000.0, 15) == {}


def test_file_keeps_the_sums() -> None:
    day = sums.Day("2026-11-25")
    gpu: Any = {"uuid": "GPU-1", "name": "NVIDIA H200", "joules": 800.0, "processes": [process("alice", 50)]}
    sums.add(day, [gpu], 15.0, 1.0)
    assert sums.from_text(sums.as_text(day), "2026-11-25") == day


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting"),
        ('{"format": 1, "day": "2026-11-25"', "Expecting"),
        ("[]", "damaged"),
        ('{"format": 2}', "has format 2, and this program reads 1"),
        ('{"format": 1, "day": "2026-11-24"}', "is of the day '2026-11-24'"),
        ('{"format": 1, "day": "2026-11-25", "observed_s": 1, "gpus": {}, "rows": [{}]}', "damaged"),
        *(
            ('{"format": 1, "day": "2026-11-25", "observed_s": ' + bad + ', "gpus": {}, "rows": []}', "damaged")
            for bad in (
                '"x"',
                '"1"',
                "true",
                "-1",
                "NaN",
                "Infinity",
                "1e999",
                "1" + "0" * 400,
                "[" * 9999 + "]" * 9999,
            )
        ),
    ],
)
def test_damaged_file_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sums.from_text(text, "2026-11-25")


def test_names_that_read_the_same_are_summed() -> None:
    rows = {("a\x85", "ssh", "GPU-1"): sums.Use(1.0), ("a\x1b", "ssh", "GPU-1"): sums.Use(2.0)}
    found = sums.from_text(sums.as_text(sums.Day("2026-11-25", 1.0, {}, rows)), "2026-11-25")
    assert found.rows == {("a?", "ssh", "GPU-1"): sums.Use(3.0)}


def test_file_is_json_for_others() -> None:
    assert json.loads(sums.as_text(sums.Day("2026-11-25")))["format"] == 1


processes = st.lists(
    st.builds(
        process,
        st.sampled_from(["alice", "bob", ""]),
        st.none() | st.integers(0, 100),
        st.integers(0, 200000),
        st.sampled_from(["ssh", "unit", "container"]),
        st.floats(0, 15),
    ),
    max_size=8,
)


@given(processes, st.floats(0, 20000))
def test_nobody_uses_more_than_there_is(rows: list[Any], joules: float) -> None:
    found = sums.use_of(rows, 15.0, joules)
    for user in {name for name, _kind in found}:
        assert sum(use.held_s for (name, _kind), use in found.items() if name == user) <= 15.0 + 1e-9
    assert sum(use.busy_s for use in found.values()) <= 15.0 + 1e-9
    assert sum(use.joules for use in found.values()) <= joules * (1 + 1e-9)


@given(st.floats(1.6e9, 4e9), st.floats(0.1, 45))
def test_parts_of_an_interval_are_the_whole(end: float, seconds: float) -> None:
    found = sums.parts_of(end, seconds)
    assert sum(found.values()) == pytest.approx(1.0)
    assert len(found) <= 2

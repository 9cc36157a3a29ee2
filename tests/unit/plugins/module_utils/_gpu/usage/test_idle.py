# SPDX-License-Identifier: GPL-3.0-or-later
"""The rolling window of idle processes."""

from __future__ import annotations

from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.idle import (
    Idle,
    Quota,
    duration,
    is_ignored,
    message,
)
from hypothesis import given
from hypothesis import strategies as st

FIRST, REUSED = ("GPU-1", 42, 100.0), ("GPU-1", 42, 900.0)


def observed(*shares: int | None) -> float:
    windows = Idle()
    for share in shares:
        windows.observe({FIRST: share}, 15.0)
    return windows.seconds[FIRST]


def test_window_rolls() -> None:
    assert observed(0, 0, 0) == 45.0
    assert observed(0, 0, 3) == 0.0
    assert observed(99, 99, 0) == 15.0


def test_unknown_share_is_not_idle() -> None:
    assert observed(0, 0, None) == 0.0


def test_gap_starts_the_window_again() -> None:
    windows = Idle({FIRST: 7000.0})
    windows.observe({FIRST: 0}, 0.0)
    assert windows.seconds == {FIRST: 0.0}


def test_reused_pid_is_another_process() -> None:
    windows = Idle({FIRST: 7000.0})
    windows.observe({REUSED: 0}, 15.0)
    assert windows.seconds == {REUSED: 15.0}


def test_owner_has_one_message_in_an_idle_time() -> None:
    windows = Idle()
    due = []
    for share in [0] * 5 + [80] + [0] * 5:
        windows.observe({FIRST: share}, 60.0)
        due.append(bool(windows.due({FIRST: 18432}, 18432, 180.0)))
    assert [number for number, sent in enumerate(due) if sent] == [2, 8]


def test_little_memory_and_a_rule_that_is_off_send_nothing() -> None:
    windows = Idle({FIRST: 9000.0})
    assert windows.due({FIRST: 1023}, 1024, 7200.0) == []
    assert windows.due({FIRST: 4096}, 1024, 0.0) == []
    assert windows.due({FIRST: 1024}, 1024, 7200.0) == [FIRST]


def test_process_that_works_on_another_gpu_is_not_idle() -> None:
    other = ("GPU-2", *FIRST[1:])
    windows = Idle()
    memory = {FIRST: 20000, other: 30000}
    due = []
    for share in [90] * 4 + [0] * 4:
        windows.observe({FIRST: 0, other: share}, 60.0)
        due.append(windows.due(memory, 1024, 180.0))
    assert due == [[]] * 6 + [[other], []]


def test_user_has_few_messages_in_a_day() -> None:
    quota = Quota()
    assert [quota.take("alice", 60.0 * number) for number in range(8)] == [5, 4, 3, 2, 1, 0, -1, -1]
    assert quota.take("bob", 480.0) == 5
    assert quota.take("alice", 86400.0 + 61.0) == 1


def test_ignored_are_users_programs_and_units() -> None:
    row: Any = {"user": "svc", "command": "ollama", "name": "ollama.service"}
    assert is_ignored(row, ["ollama"]) and is_ignored(row, ["svc"]) and is_ignored(row, ["ollama.service"])
    assert is_ignored(row | {"command": "very-long-name-"}, ["very-long-name-of-a-program"])
    assert not is_ignored(row | {"user": "", "command": "", "name": ""}, ["", "x"])
    assert not is_ignored(row, ["olla"])


def test_message_names_process_memory_and_time() -> None:
    row: Any = {"command": "python3", "pid": 42, "memory_mib": 18432, "idle_s": 7260, "ended": False}
    assert message("ws1", 0, row) == (
        "python3 (pid 42) holds 18.0 GiB of GPU 0 on ws1, and ran no kernel for 2 h 1 min. End it if it is done."
    )
    assert message("ws1", 0, row, 3).endswith(" So do 3 more of your processes: `gpu-who` shows them.")
    assert message("ws1", 0, row | {"ended": True}) == (
        "python3 (pid 42) has ended, and the driver still holds 18.0 GiB of GPU 0 on ws1 for it."
    )


def test_duration_is_readable() -> None:
    assert [duration(number) for number in (46, 60, 5400, 90000)] == ["46 s", "1 min", "1 h 30 min", "1 d 1 h"]


@given(st.lists(st.none() | st.integers(0, 2), max_size=30))
def test_idle_time_is_the_run_of_zeros_at_the_end(shares: list[int | None]) -> None:
    expected = 0
    for share in shares:
        expected = expected + 15 if share == 0 else 0
    assert not shares or observed(*shares) == expected

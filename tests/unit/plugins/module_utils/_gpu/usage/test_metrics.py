# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics of few labels, however many users there are."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import sums
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.metrics import Metrics, escape
from hypothesis import given
from hypothesis import strategies as st

LIMIT = 200


def gpu(index: int, users: list[str], share: int | None = 1) -> Any:
    rows = [{"user": user, "kind": "ssh", "share_percent": share, "memory_mib": 1024, "held_s": 15.0} for user in users]
    return {"index": index, "uuid": f"GPU-{index}", "processes": rows}


def add(metrics: Metrics, gpus: list[Any], now: float = 0.0) -> None:
    metrics.add(gpus, {row["uuid"]: sums.use_of(row["processes"], 15.0, 150.0) for row in gpus}, now)


def series(text: str) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _space, value in lines}


def total(found: dict[str, float], name: str) -> float:
    return sum(value for key, value in found.items() if key.startswith(f"rigwright_gpu_usage_{name}{{"))


def test_user_has_gauges_and_counters() -> None:
    metrics = Metrics()
    add(metrics, [gpu(0, ["alice"], 50)])
    add(metrics, [gpu(0, ["alice"], 50)])
    found = series(metrics.text(1000.0, False))
    label = '{gpu="0",user="alice",kind="ssh"}'
    assert {key.removeprefix("rigwright_gpu_usage_"): value for key, value in found.items()} == {
        "timestamp_seconds": 1000.0,
        "up": 1.0,
        f"memory_bytes{label}": float(1 << 30),
        f"sm_ratio{label}": 0.5,
        f"held_seconds_total{label}": 30.0,
        f"busy_seconds_total{label}": 15.0,
        f"joules_total{label}": 300.0,
    }


def test_500_users_have_less_than_200_series() -> None:
    metrics = Metrics()
    users = [f"user{number}" for number in range(500)]
    add(metrics, [gpu(index, users) for index in range(8)])
    found = series(metrics.text(0.0, False))
    assert len(found) < LIMIT
    assert total(found, "memory_bytes") == 8 * 500 * (1 << 30)
    assert total(found, "held_seconds_total") == 8 * 500 * 15.0
    assert 'rigwright_gpu_usage_memory_bytes{gpu="7",user="other",kind="other"}' in found


def test_counters_of_a_user_only_grow_as_others_come() -> None:
    metrics = Metrics()
    label = 'rigwright_gpu_usage_held_seconds_total{gpu="0",user="alice",kind="ssh"}'
    add(metrics, [gpu(0, ["alice"])])
    for number in range(100):
        before = series(metrics.text(0.0, False))[label]
        add(metrics, [gpu(0, [f"user{number}"])], float(number))
        assert series(metrics.text(0.0, False))[label] >= before


def test_user_without_processes_holds_no_memory() -> None:
    metrics = Metrics()
    add(metrics, [gpu(0, ["alice"])])
    add(metrics, [gpu(0, [])])
    found = series(metrics.text(0.0, False))
    assert found['rigwright_gpu_usage_memory_bytes{gpu="0",user="alice",kind="ssh"}'] == 0


def test_user_of_yesterday_makes_room() -> None:
    metrics = Metrics()
    add(metrics, [gpu(0, [f"user{number}" for number in range(100)])])
    add(metrics, [gpu(0, ["new"])], 90000.0)
    assert 'user="new"' in metrics.text(90000.0, False)


def test_unreported_share_has_no_line() -> None:
    metrics = Metrics()
    add(metrics, [gpu(0, ["alice"], None)])
    assert "sm_ratio{" not in metrics.text(0.0, False)
    add(metrics, [gpu(0, ["alice"], 50)])
    assert total(series(metrics.text(0.0, False)), "sm_ratio") == 0.5


def test_no_label_has_a_pid_and_all_are_escaped() -> None:
    assert escape('a"b\\c\nd') == 'a\\"b\\\\c\\nd'
    metrics = Metrics()
    add(metrics, [gpu(0, ['eve"} 1\n'])])
    names = set(re.findall(r"(\w+)=\"", metrics.text(0.0, False)))
    assert names == {"gpu", "user", "kind"}
    assert len(series(metrics.text(0.0, False))) == 7


@given(st.lists(st.lists(st.integers(0, 800), max_size=60), max_size=8), st.integers(1, 16))
def test_series_stay_bounded(samples: list[list[int]], gpus: int) -> None:
    metrics = Metrics()
    for number, users in enumerate(samples):
        add(metrics, [gpu(index, [f"u{user}" for user in users]) for index in range(gpus)], number * 50000.0)
        assert len(series(metrics.text(0.0, False))) < LIMIT

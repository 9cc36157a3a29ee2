# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies between fake GPUs, and an all-reduce without NCCL."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import links


class Part(list[int]):
    """A tensor. A copy through a broken link is wrong."""

    broken = False

    def __getitem__(self, key: Any) -> Any:
        return View(self, key)

    def cpu(self) -> Part:
        return Part(self)


class View:
    def __init__(self, whole: Part, part: slice) -> None:
        self.whole, self.part = whole, part

    def copy_(self, other: View, non_blocking: bool) -> None:
        numbers = list(list.__getitem__(other.whole, other.part))
        list.__setitem__(self.whole, self.part, [number + 1 for number in numbers] if Part.broken else numbers)


def torch(count: int) -> Any:
    waited: list[Any] = []
    return SimpleNamespace(
        int32=None,
        randint=lambda low, high, shape, **_options: Part([7] * 4),
        zeros_like=lambda other, **_options: Part([0] * 4),
        equal=lambda first, second: list(first) == list(second),
        waited=waited,
        cuda=SimpleNamespace(
            device_count=lambda: count,
            synchronize=waited.append,
            can_device_access_peer=lambda source, target: source + target == 1,
        ),
    )


def measured(count: int) -> list[Any]:
    events: list[Any] = []
    links.pairs(SimpleNamespace(torch=torch(count)), lambda event, **facts: events.append({"event": event, **facts}))  # type: ignore[arg-type]
    return events


@pytest.mark.parametrize("count", [1, 2, 4])
def test_each_gpu_copies_to_each_other_one(count: int):
    events = measured(count)

    ways = [(event["source"], event["target"]) for event in events if event["event"] == "pair"]
    assert ways == [(event, two) for event in range(count) for two in range(count) if event != two]
    # The program names each pair before the copy, in case the copy hangs.
    assert [event["event"] for event in events] == ["trying", "pair"] * len(ways)
    assert all(
        event["gb_s"] > 0 and event["latency_us"] > 0 and event["wrong"] == 0
        for event in events
        if event["event"] == "pair"
    )


def test_wrong_copy_is_reported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Part, "broken", True)

    assert [event["wrong"] for event in measured(2) if event["event"] == "pair"] == [1, 1]


@pytest.mark.parametrize(
    "distributed",
    [
        None,
        SimpleNamespace(is_available=lambda: False),
        SimpleNamespace(is_available=lambda: True, is_nccl_available=lambda: False),
    ],
)
def test_without_nccl_an_all_reduce_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch, distributed: Any):
    def find(name: str) -> Any:
        if distributed is None:
            raise ModuleNotFoundError(f"No module named {name!r}")
        return distributed

    monkeypatch.setattr(importlib, "import_module", find)
    events: list[Any] = []

    links.all_reduce(SimpleNamespace(torch=None), {}, lambda event, **facts: events.append({"event": event, **facts}))  # type: ignore[arg-type,typeddict-item]

    assert [(number["event"], number["test"]) for number in events] == [("skipped", "all_reduce")]
    assert events[0]["words"]

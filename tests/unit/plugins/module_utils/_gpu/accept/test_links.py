# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies between GPUs that are lists, and an all-reduce where there is no NCCL."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import links


class Part(list[int]):
    """A tensor; what is copied through a broken link arrives otherwise."""

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
        list.__setitem__(self.whole, self.part, [one + 1 for one in numbers] if Part.broken else numbers)


def torch(count: int) -> Any:
    waited: list[Any] = []
    return SimpleNamespace(
        int32=None,
        randint=lambda low, high, shape, **_options: Part([7] * 4),
        zeros_like=lambda other, **_options: Part([0] * 4),
        equal=lambda one, two: list(one) == list(two),
        waited=waited,
        cuda=SimpleNamespace(
            device_count=lambda: count,
            synchronize=waited.append,
            can_device_access_peer=lambda one, two: one + two == 1,
        ),
    )


def measured(count: int) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = []
    links.pairs(SimpleNamespace(torch=torch(count)), lambda event, **facts: said.append({"event": event, **facts}))  # type: ignore[arg-type]
    return said


@pytest.mark.parametrize("count", [1, 2, 4])
def test_each_gpu_copies_to_each_other_one(count: int):
    said = measured(count)

    ways = [(one["source"], one["target"]) for one in said if one["event"] == "pair"]
    assert ways == [(one, two) for one in range(count) for two in range(count) if one != two]
    # Who is tried is told before, for the one that hangs.
    assert [one["event"] for one in said] == ["trying", "pair"] * len(ways)
    assert all(
        one["gb_s"] > 0 and one["latency_us"] > 0 and one["wrong"] == 0 for one in said if one["event"] == "pair"
    )


def test_wrong_copy_is_reported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Part, "broken", True)

    assert [one["wrong"] for one in measured(2) if one["event"] == "pair"] == [1, 1]


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
    said: list[dict[str, Any]] = []

    links.all_reduce(SimpleNamespace(torch=None), {}, lambda event, **facts: said.append({"event": event, **facts}))  # type: ignore[arg-type]

    assert [(one["event"], one["test"]) for one in said] == [("skipped", "all_reduce")]
    assert said[0]["words"]

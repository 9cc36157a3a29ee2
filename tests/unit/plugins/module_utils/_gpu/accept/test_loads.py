# SPDX-License-Identifier: GPL-3.0-or-later
"""The timing of a window."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import loads


class Gpu:
    """Marks are the host's clock, and a step takes what it takes."""

    def synchronize(self) -> None:
        pass

    def mark(self) -> Any:
        return SimpleNamespace(at=time.monotonic(), synchronize=lambda: None)

    def seconds(self, first: Any, last: Any) -> float:
        return last.at - first.at


class Load:
    test, unit = "copy", "gb_s"

    def __init__(self) -> None:
        self.steps = 0

    def step(self) -> float:
        self.steps += 1
        time.sleep(0.01)
        return 5.0

    def result(self) -> dict[str, Any]:
        return {"wrong": 0}


def test_window_does_not_count_the_settling_time():
    events: list[dict[str, Any]] = []
    load = Load()

    loads.window(Gpu(), load, 0.2, lambda event, **facts: events.append({"event": event, **facts}))  # type: ignore[arg-type]

    (window,) = events
    assert (window["event"], window["test"], window["unit"], window["wrong"]) == ("window", "copy", "gb_s", 0)
    # 5 GB in at least 10 ms; a busy machine sleeps longer, never shorter
    assert 0 < window["value"] <= 500
    counted = window["value"] * (window["to"] - window["from"]) / 5
    assert counted < load.steps
    assert window["to"] - window["from"] >= 0.2


def test_an_error_is_one_line():
    assert loads.one_line(RuntimeError("a\n  b")) == "a b"
    assert loads.one_line(KeyboardInterrupt()) == "KeyboardInterrupt"

# SPDX-License-Identifier: GPL-3.0-or-later
"""The request of gpu_accept: what is refused, and the seconds of each phase."""

from __future__ import annotations

import os
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import request
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

PARAMS: Any = {
    "user": "nobody",
    "quick": False,
    "warm_up_s": None,
    "window_s": None,
    "windows": 3,
    "minutes": 0,
    "memory_share": 0.9,
}


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"windows": 0}, "`windows` is 0: give 1 to 1000"),
        ({"windows": 1001}, "`windows` is 1001: give 1 to 1000"),
        ({"window_s": 0.1}, "`window_s` is 0.1: give 0.5 to 3600"),
        ({"warm_up_s": -1}, "`warm_up_s` is -1: give 0 to 3600"),
        ({"minutes": -1}, "`minutes` is -1: give 0 to 10080"),
        ({"memory_share": float("nan")}, "`memory_share` is nan: give 0 to 0.95"),
        ({"memory_share": 1}, "`memory_share` is 1: give 0 to 0.95"),
    ],
)
def test_impossible_numbers_are_refused(params: Any, text: str):
    with pytest.raises(Refusal, match=text):
        request.validate(PARAMS | params)


@pytest.mark.parametrize("name", ["windows", "window_s", "warm_up_s", "minutes"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_endless_times_are_refused(name: str, value: float):
    with pytest.raises(Refusal, match=f"`{name}` is {value}: give "):
        request.validate(PARAMS | {name: value})


def test_unknown_user_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    with pytest.raises(Refusal, match="There is no user nobody-here: set `user`"):
        request.validate(PARAMS | {"user": "nobody-here"})


def test_defaults_are_accepted():
    request.validate(PARAMS)


@pytest.mark.parametrize(
    ("params", "seconds"),
    [
        ({}, (30, 10, 0)),
        ({"quick": True}, (5, 2, 0)),
        ({"quick": True, "window_s": 0.5, "minutes": 0.5}, (5, 0.5, 30)),
        ({"warm_up_s": 0}, (0, 10, 0)),
    ],
)
def test_seconds_follow_quick_unless_they_are_given(params: Any, seconds: tuple[float, ...]):
    parsed = request.parse(PARAMS | params)

    assert (parsed["warm_up_s"], parsed["window_s"], parsed["burn_in_s"]) == seconds

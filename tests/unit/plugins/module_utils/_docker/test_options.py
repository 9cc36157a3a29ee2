# SPDX-License-Identifier: GPL-3.0-or-later
"""Layers of daemon.json: what the later one says counts, and what is whose."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.options import (
    NEUTRAL,
    RELOADED,
    merge,
    own_part,
)


def test_options_of_another_log_driver_are_not_mixed_in() -> None:
    assert merge(
        {"log-driver": "json-file", "log-opts": {"labels": "a"}}, {"log-driver": "local", "log-opts": {"max-file": "5"}}
    ) == {
        "log-driver": "local",
        "log-opts": {"max-file": "5"},
    }
    assert merge({"log-driver": "local", "log-opts": {"max-file": "5"}}, {"log-driver": "journald"}) == {
        "log-driver": "journald"
    }


@pytest.mark.parametrize(
    ("now", "own"),
    [
        ({"a": 1, "x": {"role": 1}}, {"a": 1}),
        ({"a": 1, "x": {"role": 1}, "hand": True}, {"a": 1, "hand": True}),
        ({"a": 2, "x": {"role": 1}}, {"a": 2}),
        ({"x": {"role": 1}}, {}),
        ({"a": 1, "x": {"role": 1, "hand": 2}}, {"a": 1, "x": {"hand": 2}}),
        ({}, {}),
    ],
    ids=["untouched", "added", "changed", "removed", "added inside", "file gone"],
)
def test_later_changes_are_the_hosts_own(now: dict[str, Any], own: dict[str, Any]) -> None:
    assert own_part({"a": 1}, {"a": 1, "x": {"role": 1}}, now) == own


@pytest.mark.parametrize(
    ("had", "now", "own"),
    [
        ({"memlock": 1}, {"memlock": 1, "nofile": 2}, {"ulimits": {"memlock": 1}}),
        ({"memlock": 1}, {"nofile": 2}, {}),
        ({"memlock": 1, "core": 3}, {"core": 3, "nofile": 2}, {"ulimits": {"core": 3}}),
        ({"memlock": 1}, {"memlock": 5, "nofile": 2}, {"ulimits": {"memlock": 5}}),
    ],
    ids=["untouched", "all of the host's taken away", "some taken away", "changed"],
)
def test_removed_suboption_does_not_come_back(had: dict[str, int], now: dict[str, int], own: dict[str, Any]) -> None:
    assert own_part({"ulimits": had}, {"ulimits": {**had, "nofile": 2}}, {"ulimits": now}) == own


def test_every_reloaded_option_has_a_neutral_value() -> None:
    # dockerd sets these to its defaults when it reads a file without them.
    by_itself = {"max-concurrent-downloads", "max-concurrent-uploads", "max-download-attempts"}
    assert RELOADED - by_itself == NEUTRAL.keys()

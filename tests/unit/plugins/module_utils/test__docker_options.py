# SPDX-License-Identifier: GPL-3.0-or-later
"""Layers of daemon.json: what the later one says counts, and what is whose."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._docker_options import merge, own_part


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
def test_what_others_change_later_is_the_hosts_own(now: dict[str, Any], own: dict[str, Any]) -> None:
    assert own_part({"a": 1}, {"a": 1, "x": {"role": 1}}, now) == own

# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts in their order, and limits."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import reason as base
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_catalogue as data
from ansible_collections.rigwright.workstation.plugins.modules import gpu_health


def test_the_gravest_verdict_is_the_last_of_the_order() -> None:
    assert base.gravest([]) == "PASS"
    assert base.gravest(["MONITOR", "REPLACE", "REBOOT"]) == "REPLACE"


def test_missing_value_is_none_on_any_level() -> None:
    assert [base.at({"a": None}, "a", "b"), base.at({}, "a"), base.at({"a": {"b": 1}}, "a", "b")] == [None, None, 1]


@pytest.mark.parametrize("verdict", data.VERDICTS)
def test_a_reason_has_the_next_step_of_its_verdict_or_its_own(verdict: str) -> None:
    assert base.reason("x", "", "", verdict).next_step == base.NEXT_STEPS[verdict]
    assert base.reason("x", "", "", verdict, "look").next_step == "look"


def test_every_limit_is_an_option_of_the_module() -> None:
    assert {field.name for field in dataclasses.fields(base.Limits)} == set(gpu_health.ARGUMENTS["limits"]["options"])

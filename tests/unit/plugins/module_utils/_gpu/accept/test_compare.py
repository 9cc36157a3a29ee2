# SPDX-License-Identifier: GPL-3.0-or-later
"""Comparisons of a card with its baseline and with its model."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import compare
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import verdict as accept
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.baseline import CIRCUMSTANCES

from tests.unit.support.gpu.reports import REQUEST, card, events, samples

Facts = Any


def report(host: str = "a", values: dict[str, float] | None = None, **changes: Any) -> Facts:
    found = accept.report(card(uuid=f"GPU-{host}"), card(), REQUEST, events(**(values or {})), samples(**changes), [])
    return {"host": host, **found}


def kept(**changes: Any) -> Facts:
    return compare.baseline_of(report(**changes), "2026-11-01")


# Baseline


def test_passed_card_gets_a_baseline_that_stays():
    first = compare.plan_baseline(None, report(), "keep", "2026-11-01")

    assert first == kept()
    assert compare.plan_baseline(first, report(values={"copy": 4400}), "keep", "2026-11-02") == first


def test_failed_card_gets_no_baseline():
    bad = report(values={"copy": 2000})

    assert compare.plan_baseline(None, bad, "keep", "2026-11-01") is None
    assert compare.plan_baseline(kept(), bad, "renew", "2026-11-02") == kept()


def test_baseline_is_renewed_on_request():
    found = compare.plan_baseline(kept(), report(values={"copy": 4400}), "renew", "2026-11-02")

    assert found is not None
    assert (found["day"], found["tests"]["copy"]["value"]) == ("2026-11-02", 4400)


def test_ignored_baseline_stays():
    assert compare.plan_baseline(kept(), report(values={"copy": 4400}), "ignore", "2026-11-02") == kept()
    assert compare.against_baseline(report(values={"copy": 4200}), kept(values={"copy": 4900}), "ignore") == ([], [])


@pytest.mark.parametrize(("value", "verdicts"), [(760.0, []), (735.0, ["slower"])])
def test_five_percent_less_than_before_is_slower(value: float, verdicts: list[str]):
    problems, _notes = compare.against_baseline(report(values={"matmul_bf16": value}), kept(), "keep")

    assert [row["verdict"] for row in problems] == verdicts


@pytest.mark.parametrize(("share", "verdicts"), [(0.9, []), (0.8, ["slower"])])
def test_copies_with_the_host_may_spread_more(share: float, verdicts: list[str]):
    usual = kept()["tests"]["h2d_d2h"]["value"]
    problems, _notes = compare.against_baseline(report(values={"h2d_d2h": share * usual}), kept(), "keep")

    assert [row["verdict"] for row in problems] == verdicts


def test_warmer_at_equal_power_is_cooling():
    problems, _notes = compare.against_baseline(report(temperature_c=69), kept(), "keep")

    assert {row["verdict"] for row in problems} == {"cooling"}
    assert problems[0]["evidence"] == "69 C at 690 W, and 60 C at 690 W on 2026-11-01"


@pytest.mark.parametrize(
    "changes", [{"temperature_c": 68}, {"temperature_c": 75, "power_w": 800.0}, {"temperature_c": None}]
)
def test_warmer_by_less_or_at_more_power_is_no_problem(changes: Facts):
    assert compare.against_baseline(report(**changes), kept(), "keep") == ([], [])


@pytest.mark.parametrize("key", CIRCUMSTANCES)
def test_other_conditions_are_not_compared(key: str):
    slow = report(values={"copy": 4190}) | {key: "another"}

    problems, notes = compare.against_baseline(slow, kept(values={"copy": 4800}), "keep")

    assert problems == []
    assert notes == [f"not compared with the baseline of 2026-11-01: {key} differs; `baseline: renew` makes a new one"]


def test_a_card_that_was_not_measured_is_not_compared():
    found = accept.not_measured(card(), "in use", "wait")

    assert compare.against_baseline(found, kept(), "keep") == ([], [])


# Fleet


def test_equal_cards_have_no_problem():
    values = (774, 780, 786, 791)

    assert (
        compare.fleet([report(host, {"matmul_bf16": value}) for host, value in zip("abcd", values, strict=True)]) == []
    )


def test_slow_card_of_a_fleet_is_named():
    slow = {"a": 780.0, "b": 790.0, "c": 700.0, "d": 785.0}

    problems = compare.fleet([report(host, {"matmul_bf16": value}) for host, value in slow.items()])

    assert [(row["host"], row["uuid"], row["verdict"], row["test"]) for row in problems] == [
        ("c", "GPU-c", "slower", "matmul_bf16")
    ]
    assert "700 tflops, 11% less than 782.5 in the middle of 4 cards" in problems[0]["evidence"]
    assert "those of the others" in problems[0]["next_step"]


def test_rate_that_is_no_number_is_slower():
    nan = report("c", {"copy": float("nan")})

    assert [row["test"] for row in compare.against_baseline(nan, kept(), "keep")[0]] == ["copy"]
    problems = compare.fleet([report("a"), report("b"), nan])
    assert [(row["host"], row["verdict"], row["test"]) for row in problems] == [("c", "slower", "copy")]
    assert compare.fleet([nan | {"host": host} for host in "abc"]) == []


def test_hot_card_of_a_fleet_is_named():
    problems = compare.fleet([report("a"), report("b"), report("c", temperature_c=72)])

    assert {(row["host"], row["verdict"]) for row in problems} == {("c", "cooling")}


def test_two_cards_have_no_median():
    assert compare.fleet([report("a"), report("b", {"matmul_bf16": 700})]) == []


def test_models_and_conditions_are_not_mixed():
    others = [report(host, {"matmul_bf16": 400}) | {"name": "NVIDIA A100"} for host in "de"]

    assert compare.fleet([*(report(host) for host in "abc"), *others]) == []


def test_a_card_without_figures_is_left_out():
    absent: Any = {"host": "d", **accept.not_measured(card(), "in use", "wait")}

    assert compare.fleet([*(report(host) for host in "abc"), absent]) == []


def test_card_with_another_product_is_named():
    odd = report("c")
    odd["checksums"] = {**odd["checksums"], "matmul_bf16": "another sum"}

    problems = compare.fleet([report("a"), report("b"), odd])

    assert [(row["host"], row["verdict"], row["test"]) for row in problems] == [("c", "hardware", "matmul_bf16")]
    assert "differs from that of 2 of 3 cards" in problems[0]["evidence"]


def test_both_of_two_different_cards_are_named():
    odd = report("b")
    odd["checksums"] = {**odd["checksums"], "matmul_bf16": "another sum"}

    assert [row["host"] for row in compare.fleet([report("a"), odd])] == ["a", "b"]

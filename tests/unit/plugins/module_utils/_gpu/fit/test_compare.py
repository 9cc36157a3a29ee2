# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranks of cards for a mix of jobs, and prices."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import compare
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

from tests.unit.support.gpu_fit import job

MIX = [
    (job(name="images", torchvision="resnet50", batch=64, dtype="amp"), 2.0),
    (job(name="chat", task="infer", new_tokens=64), 1.0),
]
PRICES = {"currency": "eur", "prices": {"RTX 4090": 1900, "RTX 3090": 700, "H100": 28000}}


def names(rows: list[Any]) -> list[str]:
    return [row["card"] for row in rows]


def test_cards_on_which_jobs_fit_come_first() -> None:
    rows = compare.rank(MIX, "speed")
    assert [row["fitting"] for row in rows] == sorted((row["fitting"] for row in rows), reverse=True)
    assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))


def test_money_ranks_cards_with_a_price() -> None:
    rows = compare.rank(MIX, "money", priced=compare.prices(PRICES))
    assert names(rows) == ["RTX 3090", "RTX 4090", "H100 SXM5 80 GB"]
    assert "for 1000 EUR" in rows[0]["reason"]


def test_each_reason_says_what_decides() -> None:
    for by in ("speed", "watt", "memory"):
        for row in compare.rank(MIX, by):
            assert "decide" in row["reason"] and row["reason"].endswith(".")


def test_memory_ranks_the_largest_first() -> None:
    assert names(compare.rank(MIX, "memory"))[0] == "B300"


@pytest.mark.parametrize(
    ("prices", "message"),
    [
        ([], "no list of prices"),
        ({"prices": {"RTX 4090": 1}}, "the currency is None: give its three letters"),
        ({"currency": "", "prices": {"RTX 4090": 1}}, "the currency is ''"),
        ({"currency": "EUR", "prices": {"RTX 4090": -1}}, "the price of RTX 4090 is -1"),
        ({"currency": "EUR", "prices": {"RTX 4091": 1}}, "`prices`: RTX 4091 is not in the table; the nearest"),
        ({"currency": "EUR", "prices": {"RTX 4090": float("nan")}}, "the price of RTX 4090 is nan"),
        ({"currency": "EUR", "prices": {"RTX 4090": 10**5000}}, "the price of RTX 4090 is a number of thousands"),
        ({"currency": "EUR", "prices": {"H100": 1, "H100 SXM5 80 GB": 2}}, "H100 SXM5 80 GB is there twice"),
        ({"currency": 10**5000, "prices": {}}, "the currency is a number of thousands"),
    ],
)
def test_prices_are_refused(prices: Any, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        compare.prices(prices)


def test_money_without_prices_is_refused() -> None:
    with pytest.raises(Refusal, match="there are no prices"):
        compare.rank(MIX, "money")


@pytest.mark.parametrize("jobs", [None, {}, [], ["resnet50"]])
def test_a_file_without_jobs_is_refused(jobs: Any) -> None:
    with pytest.raises(Refusal, match="no list of jobs"):
        compare.jobs(jobs)


def test_a_file_of_more_jobs_than_anyone_has_is_refused() -> None:
    assert len(compare.jobs([{}] * 100)) == 100
    with pytest.raises(Refusal, match="101 jobs: give at most 100, with `count`"):
        compare.jobs([{}] * 101)


@pytest.mark.parametrize("count", [0, -1, 5e-324, float("nan"), float("inf"), 1e308, True, "2"])
def test_a_count_that_is_none_is_refused(count: object) -> None:
    with pytest.raises(Refusal, match="`count` of a job is .*: give a number above 0"):
        compare.weight({"count": count})


def test_a_card_is_ranked_once_under_all_its_names() -> None:
    assert [card.name for card in compare.choose(["L4", "NVIDIA L4", "l4"])] == ["L4"]

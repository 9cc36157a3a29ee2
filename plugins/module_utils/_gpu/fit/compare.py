# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which card for a mix of jobs: ranks, and a sentence for each. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import answer, wording
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.cards import CARDS, Card, find
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.request import Request
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.rows import Rank
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

BY = ("speed", "money", "watt", "memory")
# The card that the others' speed is a multiple of.
REFERENCE = "RTX 3090"
# Jobs of a mix: a hundred take some seconds.
JOBS = 100
# Runs of a job in a mix.
LEAST, MOST = 0.000_001, 1_000_000_000


def prices(given: t.Any) -> tuple[str, dict[str, float]]:
    """Return the currency and the price of each card.

    :raises Refusal: there is no currency, or a price is none.
    """
    if not isinstance(given, dict) or not isinstance(given.get("prices"), dict):
        raise Refusal('`prices`: the file is no list of prices: give {"currency": "EUR", "prices": {"RTX 4090": 1800}}')
    currency = given.get("currency")
    if not isinstance(currency, str) or not re.fullmatch(r"[A-Za-z]{3}", currency):
        raise Refusal(f"`prices`: the currency is {wording.short(currency)}: give its three letters, such as EUR")
    found: dict[str, float] = {}
    for name, price in given["prices"].items():
        if isinstance(price, bool) or not isinstance(price, (int, float)) or not 0 < price < 1e9:
            raise Refusal(
                f"`prices`: the price of {wording.name(name)} is {wording.short(price)}: give a number above 0"
            )
        card = find(name, "prices").name
        if card in found:
            raise Refusal(f"`prices`: {card} is there twice, under two names: remove one")
        found[card] = float(price)
    return currency.upper(), found


def jobs(given: t.Any) -> list[JsonObject]:
    """Return the jobs of a file: a list, or `jobs` of a mapping.

    :raises Refusal: there are none.
    """
    rows = given.get("jobs") if isinstance(given, dict) else given
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise Refusal("`jobs`: the file has no list of jobs: give a list of mappings with `model`, `task`, `batch` ...")
    if len(rows) > JOBS:
        raise Refusal(f"`jobs`: the file has {len(rows)} jobs: give at most {JOBS}, with `count` for what is alike")
    return rows


def weight(job: JsonObject) -> float:
    """Return how much a job counts."""
    share = job.get("count", 1)
    # A comparison with NaN is never true.
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not LEAST <= share <= MOST:
        raise Refusal(f"`count` of a job is {wording.short(share)}: give a number above 0, from {LEAST} to {MOST}")
    return float(share)


def rank(
    requests: t.Sequence[tuple[Request, float]],
    by: str,
    cards: t.Sequence[Card] = CARDS,
    priced: tuple[str, dict[str, float]] | None = None,
) -> list[Rank]:
    """Return cards from the best to the worst for a mix of jobs, each with its reason.

    Jobs that fit count first. The speed is the weighted harmonic mean of the speeds relative to one card: the time of the whole mix.
    """
    if by not in BY:
        raise Refusal(f"`by` is {by!r}: give one of {', '.join(BY)}")
    if by == "money" and not priced:
        raise Refusal("`by` is money, and there are no prices: give `prices`, a file")
    if by == "money" and priced:
        cards = [card for card in cards if card.name in priced[1]]
        if not cards:
            raise Refusal("`prices` has none of the chosen cards: give `cards` that it has")
    reference = {
        request.name: row["step_s"]
        for request, _weight in requests
        for row in answer.estimate(request, [find(REFERENCE)])["cards"]
    }
    rows = [_row(requests, card, reference, priced) for card in cards]
    rows.sort(key=lambda row: (-row["fitting"], -score(row, by), -row["speed"], row["card"]))
    for number, row in enumerate(rows, 1):
        row["rank"] = number
        row["reason"] = _reason(row, by)
    return rows


def score(row: Rank, by: str) -> float:
    """Return what ranks a card."""
    found = {
        "speed": row["speed"],
        "money": row["speed_per_price"] or 0.0,
        "watt": row["speed_per_kw"],
        "memory": float(row["memory_gb"]),
    }
    return found[by]


def _row(
    requests: t.Sequence[tuple[Request, float]],
    card: Card,
    reference: t.Mapping[str, float],
    priced: tuple[str, dict[str, float]] | None,
) -> Rank:
    estimates = [(answer.estimate(request, [card])["cards"][0], share) for request, share in requests]
    total = sum(share for _row, share in estimates)
    fitting = sum(share for row, share in estimates if row["fits"] == "yes") / total
    slower = sum(
        share * row["step_s"] / reference[request.name] for (row, share), (request, _) in zip(estimates, requests)
    )
    relative = total / slower
    price = priced[1].get(card.name) if priced else None
    deciding: dict[str, float] = {}
    for row, share in estimates:
        deciding[row["decides"]] = deciding.get(row["decides"], 0.0) + share
    return {
        "rank": 0,
        "card": card.name,
        "fitting": round(fitting, 3),
        "speed": answer.significant(relative),
        "memory_gb": card.memory_gb,
        "bandwidth_gb_s": card.bandwidth_gb_s,
        "tflops": card.tflops("bf16") or card.tflops("fp16") or card.tflops("fp32"),
        "power_w": card.power_w,
        "speed_per_kw": answer.significant(relative / card.power_w * 1000),
        "price": price,
        "currency": priced[0] if priced and price else None,
        "speed_per_price": answer.significant(relative / price * 1000) if price else None,
        "decides": max(deciding, key=lambda name: deciding[name]),
        "missing": [request.name for (row, _share), (request, _) in zip(estimates, requests) if row["fits"] != "yes"],
        "reason": "",
    }


def _reason(row: Rank, by: str) -> str:
    if row["missing"]:
        first = f"{', '.join(row['missing'][:3])} {'does' if len(row['missing']) == 1 else 'do'} not surely fit in {row['memory_gb']} GB"
    else:
        first = f"All jobs fit in {row['memory_gb']} GB"
    decides = {
        "bandwidth": f"bandwidth decides ({row['bandwidth_gb_s']} GB/s)",
        "matrix units": f"matrix units decide ({row['tflops']:.0f} TFLOPS)",
        "multiprocessors": "multiprocessors decide: memory and matrix units wait for them",
        "host": "the host decides: it starts kernels no faster for a better card",
    }[row["decides"]]
    per = {
        "speed": "",
        "memory": "",
        "watt": f", {row['speed_per_kw']:g} for each kW",
        "money": f", {row['speed_per_price'] or 0:g} for 1000 {row['currency']}",
    }[by]
    return f"{first}; {row['speed']:g} times an {REFERENCE}{per}; {decides}."


def choose(names: t.Sequence[str]) -> list[Card]:
    """Return the cards of names; all cards of the table for none."""
    return list(dict.fromkeys(find(name) for name in names)) if names else list(CARDS)

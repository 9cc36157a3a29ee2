# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of HTML."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import (
    answer,
    cards,
    compare,
    page,
    together,
)

from tests.unit.support.gpu_fit import job


def test_the_page_needs_nothing_else_and_escapes_names() -> None:
    rows = compare.rank([(job(name="<b>", torchvision="resnet18"), 1.0)], "speed")
    text = page.page({"by": "speed", "ranks": rows, "jobs": []})
    assert "<svg" in text and "</html>" in text
    assert "src=" not in text and "<script" not in text and "@import" not in text


def test_names_of_jobs_are_escaped() -> None:
    found = answer.estimate(job(name="<b>", torchvision="resnet18"), [cards.find("L4")])
    assert "&lt;b&gt;" in page.page({"jobs": [found]}) and "<b>" not in page.page({"jobs": [found]})


def test_the_page_has_notes_and_pairs() -> None:
    first, second = (job(name=name, torchvision="resnet18", dtype="bf16") for name in ("<one>", "two"))
    card = cards.find("T4")
    pair = together.together((first, second), card)
    text = page.page({"jobs": [answer.estimate(first, [card])], "together": [pair]})
    assert "no units for bf16" in text and "no model was built" in text
    assert "&lt;one&gt; and two at once on one T4" in text


def test_bars_show_what_ranks() -> None:
    first = (job(name="one", torchvision="resnet18"), 1.0)
    prices = compare.prices({"currency": "EUR", "prices": {"L4": 2500, "RTX PRO 6000 Blackwell Server": 9000}})
    rows = compare.rank([first], "money", priced=prices)
    text = page.picture(rows, "money")
    assert "Speed for 1000 EUR" in text and f">{rows[0]['speed_per_price']:g}<" in text


def test_the_longest_name_has_room() -> None:
    rows = compare.rank([(job(name="one", torchvision="resnet18"), 1.0)], "memory")
    longest = max(len(f"{row['card']} ({row['memory_gb']} GB)") for row in rows[:24])
    margin = min(float(part.split('"')[0]) for part in page.picture(rows, "memory").split('text x="')[1:])
    # A letter of 12 pixels is 7 wide at most, on average.
    assert margin >= 7 * longest


def test_tables_scroll_on_a_phone() -> None:
    assert page.html_table(("a",), [("b",)]).startswith(
        '<div class="t"><table>'
    ) and ".t{overflow-x:auto}" in page.page({"jobs": []})

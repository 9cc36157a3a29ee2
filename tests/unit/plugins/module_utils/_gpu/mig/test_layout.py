# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of profiles, requests as users write them, and what a diff shows."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.layout import (
    Compute,
    Instance,
    expand,
    parse_name,
    slot_map,
    uuid_changes,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

from tests.unit.support.gpu.mig_cards import CARDS

H200 = CARDS["H200"]


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("3g.71gb", (None, "3g.71gb")),
        ("MIG 1g.10gb+me", (None, "1g.10gb+me")),
        ("1c.3g.40gb", (1, "3g.40gb")),
        ("1G.24GB-me", (None, "1g.24gb-me")),
        ("1g.24gb+me.all", (None, "1g.24gb+me.all")),
        (" 1g.24gb+gfx ", (None, "1g.24gb+gfx")),
    ],
)
def test_a_name_is_read_in_every_form_of_the_grammar(text: str, parsed: tuple[int | None, str]) -> None:
    assert parse_name(text) == parsed


@pytest.mark.parametrize(
    "text", ["", "3g", "g.71gb", "3g.71", "3g.71gb+", "c.3g.71gb", "3g.71gb me", "7g.80gb\n1g.10gb"]
)
def test_invalid_name_is_refused_with_the_grammar(text: str) -> None:
    with pytest.raises(Refusal, match=r"\[Cc\.\]Gg\.Mgb"):
        parse_name(text)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"profile": "3g.40gb"}, "layout[0].profile: this card has no 3g.40gb; it has 1g.18gb (at most 7, starts 0, 1"),
        ({"profile": "3g.71gb", "start": 2}, "3g.71gb cannot start at 2; possible are 0, 4"),
        ({"profile": "3g.71gb", "start": 0, "count": 2}, "2 instances cannot all start at 0"),
        ({"profile": "3g.71gb", "count": -1}, "layout[0].count"),
        ({"profile": "3g.71gb", "count": 0}, "layout[0].count: 0 is none; leave the entry out"),
        ({"profile": "3g.71gb", "compute_instances": ["4c"]}, "has no compute instance of 4c; possible are 1c, 2c, 3c"),
        ({"profile": "7g.141gb", "compute_instances": ["5c"]}, "has no compute instance of 5c"),
        ({"profile": "3g.71gb", "compute_instances": ["2c", "2c"]}, "2c + 2c is more than the 3 slices of 3g.71gb"),
        ({"profile": "3g.71gb", "compute_instances": ["1c.4g.71gb"]}, "is not of 3g.71gb"),
        ({"profile": "3g.71gb", "compute_instances": ["all"]}, "is no name of a MIG profile"),
        ({"profile": "4c.3g.71gb"}, "has no compute instance of 4c"),
        ({"profile": "1c.3g.71gb", "start": 0}, "name 3g.71gb to set start"),
    ],
)
def test_impossible_entry_is_refused_with_the_possible_values(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(Refusal) as refused:
        expand([entry], H200)
    assert message in str(refused.value)


def test_default_is_one_compute_instance_with_all_slices() -> None:
    entries: list[dict[str, Any]] = [
        {"profile": "3g.71gb"},
        {"profile": "2g.35gb", "compute_instances": ["1c", "1c.2g.35gb"]},
        {"profile": "1g.18gb", "compute_instances": []},
    ]
    assert [instance.compute for instance in expand(entries, H200)] == [(3,), (1, 1), ()]


def test_counted_compute_instances_share_gpu_instances() -> None:
    entries = [{"profile": "1c.3g.71gb", "count": 4}, {"profile": "2c.3g.71gb", "count": 1}]
    assert [(instance.profile, instance.compute) for instance in expand(entries, H200)] == [
        ("3g.71gb", (2, 1)),
        ("3g.71gb", (1, 1, 1)),
    ]


def test_slot_map_shows_instances_and_free_slots() -> None:
    layout = (
        Instance("3g.71gb", 4, (Compute(1, 0), Compute(1, 1))),
        Instance("1g.18gb", 0, (Compute(1, 0),)),
        Instance("2g.35gb", 2),
    )
    assert slot_map(H200, layout) == [
        "slot 0: 1g.18gb",
        "slot 1: free",
        "slots 2-3: 2g.35gb (no compute instance)",
        "slots 4-7: 3g.71gb (1c + 1c)",
    ]


def test_rtx_pro_6000_has_twelve_slots() -> None:
    layout = (Instance("2g.48gb", 6, (Compute(2, 0),)),)
    assert slot_map(CARDS["RTX PRO 6000"], layout) == [
        *(f"slot {slot}: free" for slot in range(6)),
        "slots 6-11: 2g.48gb",
    ]


def test_uuid_changes_name_the_replacements() -> None:
    def at(start: int, profile: str, uuid: str) -> Instance:
        return Instance(profile, start, (Compute(H200[profile].slices, 0, uuid=uuid),))

    before = [at(0, "1g.18gb", "a"), at(1, "1g.18gb", "b"), at(2, "2g.35gb", "c"), at(4, "3g.71gb", "d")]
    after = [at(0, "1g.18gb", "a"), at(2, "1g.18gb", "new"), at(4, "3g.71gb", "again")]
    assert uuid_changes(before, after) == {"b": "new", "c": None, "d": "again"}
    assert uuid_changes(before, before) == {}

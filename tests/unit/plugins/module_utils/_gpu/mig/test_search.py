# SPDX-License-Identifier: GPL-3.0-or-later
"""The search of placements. Its use is in the tests of plans."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.layout import Compute, Wanted
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.search import (
    Kind,
    fits,
    nearest,
    place_compute,
    placements,
    within_limits,
)

from tests.unit.support.gpu.mig_cards import CARDS, compute_starts


def test_every_placement_is_found_once() -> None:
    four, ones = Kind(4, (0, 4), 1), Kind(1, tuple(range(7)), 2)
    found = list(placements([four, ones]))
    assert len(found) == len(set(found)) == 3 + 6
    assert ((4,), (0, 3)) in found and ((0,), (5, 6)) in found


def test_fixed_start_is_in_every_placement() -> None:
    found = list(placements([Kind(1, tuple(range(7)), 2, frozenset({3}))]))
    assert len(found) == 6 and all(3 in starts for (starts,) in found)
    assert list(placements([Kind(1, (0, 1), 1, frozenset({0, 1}))])) == []
    assert list(placements([Kind(4, (0,), 1), Kind(1, (0, 1), 1, frozenset({1}))])) == []


@pytest.mark.parametrize(
    ("model", "names", "possible"),
    [
        ("A100 40GB", ["1g.5gb+me"] * 2, False),  # one instance has the engines
        ("A30", ["1g.6gb+me", "2g.12gb+me"], False),
        ("A30", ["1g.6gb", "1g.6gb", "2g.12gb+me"], True),
        ("RTX PRO 6000", ["1g.24gb+me.all", *["1g.24gb-me"] * 3], True),
        ("RTX PRO 6000", ["1g.24gb+me.all", "1g.24gb"], False),
        ("H200", ["3g.71gb", "3g.71gb"], True),
        ("H200", ["1g.35gb"] * 4, True),
        ("H200", ["4g.71gb", "4g.71gb"], False),
    ],
)
def test_engines_slices_and_counts_limit_a_card_as_a_whole(model: str, names: list[str], possible: bool) -> None:
    assert fits(CARDS[model], [Wanted(name) for name in names]) == possible


def test_slices_limit_a_card_with_free_slots() -> None:
    assert not within_limits(CARDS["H200"], [Wanted("7g.141gb"), Wanted("1g.18gb")])


def test_nearest_layouts_have_fewer_or_smaller_instances() -> None:
    names = ["3g.71gb", "4g.71gb", "1g.18gb"]
    assert nearest(CARDS["H200"], [Wanted(name) for name in names]) == [
        "4g.71gb + 3g.71gb",
        "4g.71gb + 2g.35gb + 1g.18gb",
    ]


def test_blocking_idle_compute_instance_is_removed() -> None:
    """Remove the one of two idle 1c that blocks 2c, at slice 0."""
    current = [Compute(1, 0, 0, "a"), Compute(1, 2, 1, "b")]
    kept, new = place_compute(current, [2, 1], compute_starts(3)) or ([], [])
    assert ([compute.uuid for compute in kept], [compute.place for compute in new]) == (["b"], [(2, 0)])


def test_blocking_busy_compute_instance_leaves_no_placement() -> None:
    current = [Compute(1, 0, 0, "a", (7,))]
    assert place_compute(current, [2, 1], compute_starts(3)) is None
    assert place_compute(current, [3], compute_starts(3)) is None
    assert place_compute(current, [2], None) is None


def test_without_a_table_the_driver_places_the_largest_first() -> None:
    kept, new = place_compute([Compute(1, 0, 0, "a")], [2, 1, 1], None) or ([], [])
    assert ([compute.uuid for compute in kept], [compute.place for compute in new]) == (["a"], [(2, None), (1, None)])

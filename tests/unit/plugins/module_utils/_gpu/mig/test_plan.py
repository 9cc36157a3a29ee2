# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans between layouts: what holds for any two of them on any card, and what other tools get wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.layout import (
    Compute,
    Instance,
    Layout,
    expand,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.plan import (
    CREATE,
    DESTROY,
    Busy,
    ModePlan,
    meets,
    plan_disabled,
    plan_layout,
    plan_mode,
    rollback,
    same_places,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.support.gpu.mig_cards import CARDS, CASES, CardInMemory, compute_starts
from tests.unit.support.gpu.mig_requests import layouts

H200 = CARDS["H200"]


def inst(profile: str, start: int, *pids: int, model: str = "H200", number: int = 0) -> Instance:
    """An instance with one compute instance; processes run in it when *pids* are given."""
    slices = CARDS[model][profile].slices
    uuid = f"MIG-{profile}-{start}"
    compute = Compute(slices, 0, number, uuid, pids)
    return Instance(profile, start, (compute,), number, pids, compute_starts(slices))


def idle(one: Instance) -> Instance:
    return replace(one, pids=(), compute=tuple(replace(compute, pids=()) for compute in one.compute))


def wanted(*entries: Any, model: str = "H200") -> Any:
    """Entries as `3g.71gb` or as what the module takes."""
    return expand([entry if isinstance(entry, dict) else {"profile": entry} for entry in entries], CARDS[model])


def actions(steps: Any, action: str) -> list[tuple[str, int]]:
    return [(step.profile, step.start) for step in steps if step.action == action]


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, list[Any], list[Any], list[tuple[int, int]], bool]:
    model = draw(st.sampled_from(sorted(CARDS)))
    busy = draw(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=3))
    return model, draw(layouts(model)), draw(layouts(model)), busy, draw(st.booleans())


@settings(max_examples=CASES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(changes())
def test_any_layout_leads_to_any_other_and_busy_instances_survive(case: Any) -> None:
    model, first, second, picks, keep = case
    profiles = CARDS[model]
    card = CardInMemory(profiles)
    card.run(plan_layout(profiles, card.layout, expand(first, profiles)))
    assert meets(card.layout, expand(first, profiles))
    assert plan_layout(profiles, card.layout, expand(first, profiles)) == []

    card.occupy(picks)
    before = card.layout
    busy = {(one.profile, one.start, c.uuid) for one in before for c in one.compute if c.pids}
    named = None
    try:
        steps = plan_layout(profiles, before, expand(second, profiles), keep)
    except Busy as stopped:
        named = stopped.instances
    if named is not None:
        # What it names is busy, and without that the way is free.
        assert named and all(one.pids for one in named)
        ended = tuple(idle(one) if one in named else one for one in before)
        plan_layout(profiles, ended, expand(second, profiles), keep)
        return
    card.run(steps)
    assert meets(card.layout, expand(second, profiles))
    assert busy <= {(one.profile, one.start, c.uuid) for one in card.layout for c in one.compute}
    assert plan_layout(profiles, card.layout, expand(second, profiles), keep) == []
    # Nothing is both destroyed and made again in its place.
    assert not set(actions(steps, DESTROY)) & set(actions(steps, CREATE))

    # Back from wherever it ended: the same places, without a word about processes.
    card.layout = tuple(idle(one) for one in card.layout)
    card.run(rollback(card.layout, before))
    assert same_places(card.layout, before)


def kept_by_brute_force(model: str, current: Layout, request: Any) -> int:
    """The most instances that any placement keeps, found without the search's own code."""
    profiles = CARDS[model]

    def best(left: tuple[Any, ...], taken: frozenset[int]) -> int:
        if not left:
            return 0
        one, rest = left[0], left[1:]
        found = -1
        for start in profiles[one.profile].starts if one.start is None else (one.start,):
            slots = frozenset(range(start, start + profiles[one.profile].size))
            if slots & taken:
                continue
            others = best(rest, taken | slots)
            if others >= 0:
                found = max(found, others + any(held.place == (one.profile, start) for held in current))
        return found

    return best(tuple(request), frozenset())


@settings(max_examples=max(CASES // 5, 1), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(changes())
def test_no_placement_keeps_more(case: Any) -> None:
    model, first, second, _busy, _keep = case
    profiles = CARDS[model]
    card = CardInMemory(profiles)
    card.run(plan_layout(profiles, card.layout, expand(first, profiles)))
    request = expand(second, profiles)
    steps = plan_layout(profiles, card.layout, request)
    kept = len(card.layout) - len(actions(steps, DESTROY))
    assert kept == kept_by_brute_force(model, card.layout, request)


@pytest.mark.parametrize(
    ("model", "asked", "words"),
    [
        ("H200", ["3g.71gb", "4g.71gb", "1g.18gb"], ["4g.71gb + 3g.71gb", "4g.71gb + 2g.35gb + 1g.18gb"]),
        ("H200", ["7g.141gb", "1g.18gb"], ["7g.141gb", "4g.71gb + 1g.18gb"]),
        ("A30", ["1g.6gb+me", "2g.12gb+me"], ["2g.12gb+me"]),
        ("RTX PRO 6000", ["4g.96gb", "2g.48gb"], ["4g.96gb", "2x 2g.48gb"]),
        ("RTX PRO 6000", ["1g.24gb+me.all", "1g.24gb"], ["1g.24gb", "2x 1g.24gb"]),
        ("A100 40GB", [{"profile": "1g.5gb", "count": 100}], ["7x 1g.5gb"]),
    ],
)
def test_an_impossible_layout_is_refused_with_the_nearest_that_fits(model: str, asked: Any, words: list[str]) -> None:
    with pytest.raises(Refusal, match="does not fit this card") as refused:
        plan_layout(CARDS[model], (), wanted(*asked, model=model))
    near = str(refused.value).partition("the nearest that fit: ")[2].split(", or ")
    assert [word for word in words if word not in near] == []
    for name in CARDS[model]:
        assert name in str(refused.value)


def test_a_start_that_cannot_be_with_the_others_is_refused_as_such() -> None:
    with pytest.raises(Refusal, match=r"fits the card, but not with 3g.71gb at 0"):
        plan_layout(H200, (), wanted({"profile": "3g.71gb", "start": 0}, "4g.71gb"))


def test_explicit_starts_are_honoured() -> None:
    steps = plan_layout(H200, (), wanted({"profile": "1g.18gb", "start": 2}, {"profile": "3g.71gb", "start": 4}))
    assert sorted(actions(steps, CREATE)) == [("1g.18gb", 2), ("3g.71gb", 4)]


def test_two_at_one_start_are_refused() -> None:
    with pytest.raises(Refusal, match="not with"):
        plan_layout(H200, (), wanted(*[{"profile": "1g.18gb", "start": 2}] * 2))


def test_new_instances_leave_room_for_large_ones() -> None:
    """As the driver does: it gives the first 1g slot 6, so that 3g or 4g still fit below."""
    assert actions(plan_layout(H200, (), wanted("1g.18gb")), CREATE) == [("1g.18gb", 6)]


def test_keep_instances_no_packs_what_is_idle_anew() -> None:
    current = (inst("1g.18gb", 0),)
    assert plan_layout(H200, current, wanted("1g.18gb")) == []
    steps = plan_layout(H200, current, wanted("1g.18gb"), keep=False)
    assert (actions(steps, DESTROY), actions(steps, CREATE)) == ([("1g.18gb", 0)], [("1g.18gb", 6)])


def test_a_busy_instance_in_the_way_is_named_with_its_processes() -> None:
    current = (inst("1g.18gb", 0, 4242), inst("1g.18gb", 6, 4243))
    with pytest.raises(Busy) as stopped:
        plan_layout(H200, current, wanted("4g.71gb", "1g.18gb"))
    assert [one.place for one in stopped.value.instances] == [("1g.18gb", 0)]
    assert stopped.value.pids == (4242,)


def test_a_busy_compute_instance_stays_while_its_idle_neighbour_goes() -> None:
    starts = compute_starts(3)
    busy, idle = Compute(1, 0, 1, "MIG-busy", (7,)), Compute(1, 1, 2, "MIG-idle")
    current = (Instance("3g.71gb", 0, (busy, idle), 1, (7,), starts),)
    steps = plan_layout(H200, current, wanted({"profile": "3g.71gb", "compute_instances": ["1c"]}))
    assert [step.description() for step in steps] == ["destroy_compute 1c at slice 1 of 3g.71gb at slot 0"]
    with pytest.raises(Busy):
        plan_layout(H200, current, wanted("3g.71gb"))


def test_compute_instances_that_the_driver_has_no_place_for_are_refused_and_nobody_is_called_busy() -> None:
    existing = replace(inst("3g.71gb", 0), compute_starts={1: (0,), 3: (0,)})
    with pytest.raises(Refusal, match=r"do not fit: 1c \+ 1c of 3g.71gb, where there are 1c at 0, 3c at 0"):
        plan_layout(H200, (existing,), wanted({"profile": "3g.71gb", "start": 0, "compute_instances": ["1c", "1c"]}))


def test_migparted_a_correct_instances_are_not_cleared_with_the_wrong_ones() -> None:
    current = (inst("3g.71gb", 4), inst("1g.18gb", 0))
    steps = plan_layout(H200, current, wanted("3g.71gb", "2g.35gb"))
    assert actions(steps, DESTROY) == [("1g.18gb", 0)]


def test_migparted_d_placements_are_compared_and_not_counts() -> None:
    """Counts agree, the place does not: it is moved, and nothing else."""
    current = (inst("1g.18gb", 0), inst("1g.18gb", 6))
    steps = plan_layout(H200, current, wanted({"profile": "1g.18gb", "start": 2}, "1g.18gb"))
    assert len(actions(steps, DESTROY)) == 1
    assert actions(steps, CREATE) == [("1g.18gb", 2)]


def test_migparted_e_processes_are_looked_at() -> None:
    with pytest.raises(Busy):
        plan_layout(H200, (inst("7g.141gb", 0, 99),), wanted("1g.18gb"))
    with pytest.raises(Busy):
        plan_disabled((inst("7g.141gb", 0, 99),))


def test_deepops_example_of_two_7g_80gb_is_refused() -> None:
    with pytest.raises(Refusal, match=r"2x 7g.141gb does not fit this card .*; the nearest that fit: 7g.141gb"):
        plan_layout(H200, (), wanted({"profile": "7g.141gb", "count": 2}))


def test_mixed_layouts_do_not_fail_by_the_order_they_are_written_in() -> None:
    names = ["1g.18gb", "1g.18gb", "1g.18gb", "4g.71gb"]
    assert plan_layout(H200, (), wanted(*names)) == plan_layout(H200, (), wanted(*reversed(names)))


def test_what_is_switched_off_is_emptied_first() -> None:
    assert [step.action for step in plan_disabled((inst("1g.18gb", 0),))] == ["destroy_compute", "destroy"]


@pytest.mark.parametrize(
    ("current", "pending", "asked", "resetless", "allowed", "expected"),
    [
        ("enabled", "enabled", "enabled", False, False, ModePlan(write=False)),
        ("disabled", "disabled", "unchanged", False, False, ModePlan(write=False)),
        ("disabled", "disabled", "enabled", True, False, ModePlan(write=True)),
        ("disabled", "disabled", "enabled", False, True, ModePlan(write=True)),
        ("disabled", "disabled", "enabled", False, False, ModePlan(write=False, needs="gpu_reset")),
        # Ampere with a change pending: it is not written again, and still needs the reset.
        ("disabled", "enabled", "enabled", False, False, ModePlan(write=False, needs="gpu_reset")),
        ("disabled", "enabled", "disabled", False, False, ModePlan(write=True)),
    ],
)
def test_a_mode_is_written_only_where_a_reset_is_allowed_or_not_needed(
    current: str, pending: str, asked: str, resetless: bool, allowed: bool, expected: ModePlan
) -> None:
    assert plan_mode(current, pending, asked, resetless, allowed) == expected

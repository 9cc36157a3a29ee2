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
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.steps import (
    CREATE,
    DESTROY,
    Busy,
    meets,
    plan_disabled,
    plan_layout,
    rollback,
    same_places,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.support.gpu.mig_cards import CARDS, CASES, CardInMemory, compute_starts
from tests.unit.support.gpu.mig_requests import layouts

H200 = CARDS["H200"]


def inst(profile: str, start: int, *pids: int, model: str = "H200", number: int = 0) -> Instance:
    """Return an instance with one compute instance, and with processes when *pids* are given."""
    slices = CARDS[model][profile].slices
    uuid = f"MIG-{profile}-{start}"
    compute = Compute(slices, 0, number, uuid, pids)
    return Instance(profile, start, (compute,), number, pids, compute_starts(slices))


def idle(instance: Instance) -> Instance:
    return replace(instance, pids=(), compute=tuple(replace(compute, pids=()) for compute in instance.compute))


def wanted(*entries: Any, model: str = "H200") -> Any:
    """Return the instances of entries, as `3g.71gb` or as mappings."""
    return expand([entry if isinstance(entry, dict) else {"profile": entry} for entry in entries], CARDS[model])


def actions(steps: Any, action: str) -> list[tuple[str, int]]:
    return [(step.profile, step.start) for step in steps if step.action == action]


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, list[Any], list[Any], list[tuple[int, int]], bool]:
    model = draw(st.sampled_from(sorted(CARDS)))
    busy = draw(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=3))
    return model, draw(layouts(model)), draw(layouts(model)), busy, draw(st.booleans())


@settings(max_examples=CASES)
@given(changes())
def test_busy_instances_survive_any_change_of_layout(case: Any) -> None:
    model, first, second, picks, keep = case
    profiles = CARDS[model]
    card = CardInMemory(profiles)
    card.run(plan_layout(profiles, card.layout, expand(first, profiles)))
    assert meets(card.layout, expand(first, profiles))
    assert plan_layout(profiles, card.layout, expand(first, profiles)) == []

    card.occupy(picks)
    before = card.layout
    busy = {(instance.profile, instance.start, c.uuid) for instance in before for c in instance.compute if c.pids}
    named = None
    try:
        steps = plan_layout(profiles, before, expand(second, profiles), keep)
    except Busy as stopped:
        named = stopped.instances
    if named is not None:
        # What it names is busy, and without that the way is free.
        assert named and all(instance.pids for instance in named)
        ended = tuple(idle(instance) if instance in named else instance for instance in before)
        plan_layout(profiles, ended, expand(second, profiles), keep)
        return
    card.run(steps)
    assert meets(card.layout, expand(second, profiles))
    assert busy <= {(instance.profile, instance.start, c.uuid) for instance in card.layout for c in instance.compute}
    assert plan_layout(profiles, card.layout, expand(second, profiles), keep) == []
    # Nothing is both destroyed and made again in its place.
    assert not set(actions(steps, DESTROY)) & set(actions(steps, CREATE))

    # Back from wherever it ended: the same places, without a word about processes.
    card.layout = tuple(idle(instance) for instance in card.layout)
    card.run(rollback(card.layout, before))
    assert same_places(card.layout, before)


def kept_by_brute_force(model: str, current: Layout, request: Any) -> int:
    """Return the most instances that any placement keeps, without the code of the search."""
    profiles = CARDS[model]

    def best(remaining: tuple[Any, ...], taken: frozenset[int]) -> int:
        if not remaining:
            return 0
        instance, rest = remaining[0], remaining[1:]
        found = -1
        for start in profiles[instance.profile].starts if instance.start is None else (instance.start,):
            slots = frozenset(range(start, start + profiles[instance.profile].size))
            if slots & taken:
                continue
            others = best(rest, taken | slots)
            if others >= 0:
                found = max(found, others + any(held.place == (instance.profile, start) for held in current))
        return found

    return best(tuple(request), frozenset())


@settings(max_examples=max(CASES // 5, 1))
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
    ("model", "entries", "layouts"),
    [
        ("H200", ["3g.71gb", "4g.71gb", "1g.18gb"], ["4g.71gb + 3g.71gb", "4g.71gb + 2g.35gb + 1g.18gb"]),
        ("H200", ["7g.141gb", "1g.18gb"], ["7g.141gb", "4g.71gb + 1g.18gb"]),
        ("A30", ["1g.6gb+me", "2g.12gb+me"], ["2g.12gb+me"]),
        ("RTX PRO 6000", ["4g.96gb", "2g.48gb"], ["4g.96gb", "2x 2g.48gb"]),
        ("RTX PRO 6000", ["1g.24gb+me.all", "1g.24gb"], ["1g.24gb", "2x 1g.24gb"]),
        ("A100 40GB", [{"profile": "1g.5gb", "count": 100}], ["7x 1g.5gb"]),
    ],
)
def test_impossible_layout_is_refused_with_the_nearest(model: str, entries: Any, layouts: list[str]) -> None:
    with pytest.raises(Refusal, match="does not fit this card") as refused:
        plan_layout(CARDS[model], (), wanted(*entries, model=model))
    near = str(refused.value).partition("the nearest that fit: ")[2].split(", or ")
    assert [word for word in layouts if word not in near] == []
    for name in CARDS[model]:
        assert name in str(refused.value)


def test_start_without_room_next_to_the_others_is_refused() -> None:
    with pytest.raises(Refusal, match=r"fits the card, but not with 3g.71gb at 0"):
        plan_layout(H200, (), wanted({"profile": "3g.71gb", "start": 0}, "4g.71gb"))


def test_explicit_starts_are_honoured() -> None:
    steps = plan_layout(H200, (), wanted({"profile": "1g.18gb", "start": 2}, {"profile": "3g.71gb", "start": 4}))
    assert sorted(actions(steps, CREATE)) == [("1g.18gb", 2), ("3g.71gb", 4)]


def test_two_at_one_start_are_refused() -> None:
    with pytest.raises(Refusal, match="not with"):
        plan_layout(H200, (), wanted(*[{"profile": "1g.18gb", "start": 2}] * 2))


def test_new_instances_leave_room_for_large_ones() -> None:
    """Place the first 1g at slot 6, as the driver does, so that 3g or 4g still fit."""
    assert actions(plan_layout(H200, (), wanted("1g.18gb")), CREATE) == [("1g.18gb", 6)]


def test_without_keep_idle_instances_are_packed_again() -> None:
    current = (inst("1g.18gb", 0),)
    assert plan_layout(H200, current, wanted("1g.18gb")) == []
    steps = plan_layout(H200, current, wanted("1g.18gb"), keep=False)
    assert (actions(steps, DESTROY), actions(steps, CREATE)) == ([("1g.18gb", 0)], [("1g.18gb", 6)])


def test_blocking_busy_instance_is_named_with_its_processes() -> None:
    current = (inst("1g.18gb", 0, 4242), inst("1g.18gb", 6, 4243))
    with pytest.raises(Busy) as stopped:
        plan_layout(H200, current, wanted("4g.71gb", "1g.18gb"))
    assert [instance.place for instance in stopped.value.instances] == [("1g.18gb", 0)]
    assert stopped.value.pids == (4242,)


def test_only_idle_compute_instances_are_removed() -> None:
    starts = compute_starts(3)
    busy, idle = Compute(1, 0, 1, "MIG-busy", (7,)), Compute(1, 1, 2, "MIG-idle")
    current = (Instance("3g.71gb", 0, (busy, idle), 1, (7,), starts),)
    steps = plan_layout(H200, current, wanted({"profile": "3g.71gb", "compute_instances": ["1c"]}))
    assert [step.description() for step in steps] == ["destroy_compute 1c at slice 1 of 3g.71gb at slot 0"]
    with pytest.raises(Busy):
        plan_layout(H200, current, wanted("3g.71gb"))


def test_compute_instances_without_a_placement_are_refused() -> None:
    existing = replace(inst("3g.71gb", 0), compute_starts={1: (0,), 3: (0,)})
    with pytest.raises(Refusal, match=r"do not fit: 1c \+ 1c of 3g.71gb, where there are 1c at 0, 3c at 0"):
        plan_layout(H200, (existing,), wanted({"profile": "3g.71gb", "start": 0, "compute_instances": ["1c", "1c"]}))


def test_migparted_a_correct_instances_stay() -> None:
    current = (inst("3g.71gb", 4), inst("1g.18gb", 0))
    steps = plan_layout(H200, current, wanted("3g.71gb", "2g.35gb"))
    assert actions(steps, DESTROY) == [("1g.18gb", 0)]


def test_migparted_d_placements_are_compared() -> None:
    """Move an instance whose place differs, and nothing else."""
    current = (inst("1g.18gb", 0), inst("1g.18gb", 6))
    steps = plan_layout(H200, current, wanted({"profile": "1g.18gb", "start": 2}, "1g.18gb"))
    assert len(actions(steps, DESTROY)) == 1
    assert actions(steps, CREATE) == [("1g.18gb", 2)]


def test_migparted_e_processes_are_checked() -> None:
    with pytest.raises(Busy):
        plan_layout(H200, (inst("7g.141gb", 0, 99),), wanted("1g.18gb"))
    with pytest.raises(Busy):
        plan_disabled((inst("7g.141gb", 0, 99),))


def test_deepops_example_of_two_7g_80gb_is_refused() -> None:
    with pytest.raises(Refusal, match=r"2x 7g.141gb does not fit this card .*; the nearest that fit: 7g.141gb"):
        plan_layout(H200, (), wanted({"profile": "7g.141gb", "count": 2}))


def test_order_of_a_mixed_layout_does_not_matter() -> None:
    names = ["1g.18gb", "1g.18gb", "1g.18gb", "4g.71gb"]
    assert plan_layout(H200, (), wanted(*names)) == plan_layout(H200, (), wanted(*reversed(names)))


def test_instances_go_before_mig_is_switched_off() -> None:
    assert [step.action for step in plan_disabled((inst("1g.18gb", 0),))] == ["destroy_compute", "destroy"]

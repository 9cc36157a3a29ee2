# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans of a GPU, which a later task carries out while the GPU is as it was."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig import plan as planning
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.layout import Compute, Instance, State
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.plan import (
    CardBusy,
    ModePlan,
    Plan,
    Planner,
    fingerprint,
    plan,
    plan_mode,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.request import Request
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.support.gpu.mig_cards import CARDS, CASES, CardInMemory, compute_starts
from tests.unit.support.gpu.mig_requests import layouts

REQUEST = Request("enabled", ({"profile": "3g.71gb", "compute_instances": ["2c", "1c"]}, {"profile": "2g.35gb"}))


def state(profile: str = "1g.18gb", model: str = "H200") -> State:
    """Return a GPU with two instances, one of which has a process."""
    inner = Compute(1, 0, 0, "MIG-1"), Compute(1, 0, 1, "MIG-2", (7,))
    layout = tuple(
        Instance(profile, 5 + number, (compute,), number + 1, compute.pids, compute_starts(1))
        for number, compute in enumerate(inner)
    )
    place = 0, "GPU-1", "0000:41:00.0", f"NVIDIA {model}", "0x233510de"
    return State(*place, "enabled", "enabled", True, "default", CARDS[model], layout, (7,))


def variants(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each place in facts, and the facts that differ in this place alone."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            for place, other in variants(getattr(value, field.name), f"{path}.{field.name}"):
                yield place, dataclasses.replace(value, **{field.name: other})
    elif isinstance(value, dict):
        yield f"{path}[]", type(value)(list(value.items())[1:])
        for key, inner in value.items():
            for place, other in variants(inner, f"{path}[{key}]"):
                yield place, type(value)({**value, key: other})
    elif isinstance(value, tuple):
        yield f"{path}()", (*value, *(value[:1] or (1,)))
        for number, inner in enumerate(value):
            for place, other in variants(inner, f"{path}({number})"):
                yield place, (*value[:number], other, *value[number + 1 :])
    elif isinstance(value, bool) or value is None:
        yield path, not value
    else:
        yield path, value + 1 if isinstance(value, int) else f"{value}x"


STATES = [*variants(state())]
REQUESTS = [*variants(REQUEST)]


def test_each_field_of_the_facts_is_changed() -> None:
    """Hold the list of changes to the fields that the facts have."""
    places = {place.partition("(")[0].partition("[")[0] for place, _state in STATES}
    assert places == {f".{field.name}" for field in dataclasses.fields(State)}
    inner = {place.rpartition(".")[2].partition("(")[0] for place, _state in STATES if place.startswith(".layout(1)")}
    fields = {field.name for kind in (Instance, Compute) for field in dataclasses.fields(kind)}
    assert {name.partition("[")[0] for name in inner} >= fields - {"compute"}


@pytest.mark.parametrize(
    ("now", "request_now"),
    [*((now, REQUEST) for _place, now in STATES), *((state(), now) for _place, now in REQUESTS)],
    ids=[*(f"state{place}" for place, _now in STATES), *(f"request{place}" for place, _now in REQUESTS)],
)
def test_new_plan_is_made_when_a_fact_changes(
    monkeypatch: pytest.MonkeyPatch, now: State, request_now: Request
) -> None:
    handed = json.loads(json.dumps([Plan(state(), REQUEST, "enabled").as_data()]))
    plans: list[tuple[State, Request]] = []

    def new(found: State, request: Request) -> Plan:
        plans.append((found, request))
        return Plan(found, request, needs="reboot")

    monkeypatch.setattr(planning, "plan", new)
    planner = Planner(handed)
    assert planner.plan(state(), REQUEST) == Plan(state(), REQUEST, "enabled") and plans == []
    assert planner.plan(now, request_now).needs == "reboot"
    assert plans == [(now, request_now)]


@settings(max_examples=CASES)
@given(st.data())
def test_handed_plan_is_the_plan_of_the_card(data: st.DataObject) -> None:
    model = data.draw(st.sampled_from(sorted(CARDS)))
    card = CardInMemory(CARDS[model])
    found = dataclasses.replace(state(model=model), layout=(), pids=())
    for mode in ("disabled", "enabled", "enabled"):
        found = dataclasses.replace(found, mode=mode, pending=mode, layout=card.layout)
        request = Request("enabled", tuple(data.draw(layouts(model))))
        first = plan(found, request)
        handed = json.loads(json.dumps([first.as_data()]))
        again = Planner(handed).plan(found, request)
        assert again.descriptions() == first.descriptions()
        card.run(again.steps)


def test_blocked_plan_is_not_kept() -> None:
    planner = Planner()
    for _time in range(2):
        with pytest.raises(CardBusy, match="processes run in 1g.18gb at slot 6"):
            planner.plan(state(), REQUEST)


def test_fingerprint_has_no_order_of_keys() -> None:
    entries = [dict(sorted(entry.items(), reverse=True)) for entry in REQUEST.layout or ()]
    assert fingerprint(state(), Request("enabled", tuple(entries))) == fingerprint(state(), REQUEST)


@pytest.mark.parametrize(
    ("current", "pending", "requested", "resetless", "allowed", "expected"),
    [
        ("enabled", "enabled", "enabled", False, False, ModePlan(write=False)),
        ("disabled", "disabled", "unchanged", False, False, ModePlan(write=False)),
        ("disabled", "disabled", "enabled", True, False, ModePlan(write=True)),
        ("disabled", "disabled", "enabled", False, True, ModePlan(write=True)),
        ("disabled", "disabled", "enabled", False, False, ModePlan(write=False, needs="gpu_reset")),
        # Ampere with a change pending: it is not written again, and still needs the reset.
        ("disabled", "enabled", "enabled", False, False, ModePlan(write=False, needs="gpu_reset")),
        # A reset was tried when it was set.
        ("disabled", "enabled", "enabled", False, True, ModePlan(write=False, needs="reboot")),
        ("disabled", "enabled", "disabled", False, False, ModePlan(write=True)),
    ],
)
def test_mode_is_written_only_with_an_allowed_reset(
    current: str, pending: str, requested: str, resetless: bool, allowed: bool, expected: ModePlan
) -> None:
    assert plan_mode(current, pending, requested, resetless, allowed) == expected

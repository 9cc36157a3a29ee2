# SPDX-License-Identifier: GPL-3.0-or-later
"""What a request for modes means for a card, what stands against it, and what is written."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode import plan as modes
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode.plan import Entry, State
from hypothesis import given, settings
from hypothesis import strategies as st

# Of the figure a few in every run; RIGWRIGHT_CASES=10000 for all of it.
CASES = int(os.environ.get("RIGWRIGHT_CASES", "200"))

H100 = State(
    uuid="GPU-a",
    name="NVIDIA H100",
    index=0,
    persistence=True,
    compute_mode="default",
    power_limit=700000,
    power_default=700000,
    power_range=(200000, 700000),
    power_enforced=700000,
    gpu_clocks=(210, 1980),
    memory_clocks=(1593, 2619),
    locked_gpu_clocks="unlocked",
    locked_memory_clocks="unlocked",
    accounting=False,
    ecc=True,
    ecc_current=True,
    time_slice="default",
)
GTX = State(uuid="GPU-b", name="NVIDIA GeForce GTX 1080", index=1, persistence=False, compute_mode="default")


def changes(state: State, **wanted: Any) -> list[tuple[str, Any, Any]]:
    plan = modes.plan(state, wanted, "gpus[0]")
    assert plan.problems == []
    return [(change.setting, change.before, change.after) for change in plan.changes]


def problems(state: State, **wanted: Any) -> str:
    plan = modes.plan(state, wanted, "gpus[0]")
    assert plan.changes == []
    return "; ".join(plan.problems)


@pytest.mark.parametrize(
    ("text", "milliwatts"),
    [
        ("300 W", 300000),
        ("300W", 300000),
        ("300", 300000),
        ("300.5 w", 300500),
        ("80 %", 560000),
        ("33.3%", 233000),
        ("100 %", 700000),
        ("default", 700000),
    ],
)
def test_a_power_limit_is_watts_or_a_share_of_the_default(text: str, milliwatts: int) -> None:
    assert modes.parse_value(text, "power_limit", H100) == milliwatts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("199 W", "takes 200 W to 700 W, by default 700 W"),
        ("701 W", "takes 200 W to 700 W"),
        ("101 %", "'101 %' = 707 W"),
        ("-300 W", "write `300 W`"),
        ("300 kW", "write `300 W`"),
        ("", "write `300 W`"),
    ],
)
def test_a_power_limit_out_of_range_is_refused_with_the_range(text: str, message: str) -> None:
    assert message in problems(H100, power_limit=text)


def test_a_share_needs_a_default() -> None:
    assert "does not report its default: state watts" in problems(
        dataclasses.replace(H100, power_default=None), power_limit="80 %"
    )


@pytest.mark.parametrize(
    ("value", "meant"), [([1200, 1500], [1200, 1500]), (["1200", "1500"], [1200, 1500]), ("unlocked", "unlocked")]
)
def test_clocks_are_a_pair_or_unlocked(value: Any, meant: Any) -> None:
    assert modes.parse_value(value, "locked_gpu_clocks", H100) == meant


@pytest.mark.parametrize(
    "value", [[1200], [1200, 1500, 1600], ["low", "high"], [1500, 1200], [100, 1500], [1200, 2500], "", 7, {"a": 1}]
)
def test_other_clocks_are_refused_with_the_range(value: Any) -> None:
    assert "from 210 to 1980, or `unlocked`" in problems(H100, locked_gpu_clocks=value)


@pytest.mark.parametrize(
    "setting", ["power_limit", "locked_gpu_clocks", "locked_memory_clocks", "accounting", "ecc", "time_slice"]
)
def test_unsupported_setting_is_refused_with_the_card(setting: str) -> None:
    message = problems(GTX, **{setting: "unlocked"})
    assert f"`gpus[0].{setting}`: NVIDIA GeForce GTX 1080 (GPU-b) has no" in message
    assert "leave it out for this card" in message


def test_missing_settings_are_not_changed() -> None:
    assert changes(H100, persistence=None) == []
    assert changes(dataclasses.replace(H100, compute_mode="prohibited"), persistence=True) == []


def test_persistence_is_turned_on_first_and_off_last() -> None:
    off = dataclasses.replace(H100, persistence=False)
    assert [row[0] for row in changes(off, persistence=True, power_limit="300 W")] == ["persistence", "power_limit"]
    assert [row[0] for row in changes(H100, persistence=False, power_limit="300 W")] == ["power_limit", "persistence"]


def test_pending_ecc_needs_a_reset_and_is_no_change() -> None:
    plan = modes.plan(dataclasses.replace(H100, ecc=False), {"ecc": False}, "gpus[0]")
    assert (plan.changes, plan.needs) == ([], "gpu_reset")
    taken_back = modes.plan(dataclasses.replace(H100, ecc=False), {"ecc": True}, "gpus[0]")
    assert (len(taken_back.changes), taken_back.needs) == (1, "none")


@pytest.mark.parametrize("mode", ["default", "prohibited"])
def test_mig_excludes_only_exclusive_mode(mode: str) -> None:
    mig = dataclasses.replace(H100, mig=True)
    assert "turn MIG off first" in problems(mig, compute_mode="exclusive_process")
    assert modes.plan(mig, {"compute_mode": mode}, "gpus[0]").problems == []


def test_time_slices_need_programs_that_share() -> None:
    exclusive = dataclasses.replace(H100, compute_mode="exclusive_process")
    assert "set `compute_mode: default` as well" in problems(exclusive, time_slice="long")
    assert [row[0] for row in changes(exclusive, time_slice="long", compute_mode="default")] == [
        "compute_mode",
        "time_slice",
    ]


def test_defaults_and_settings_of_the_card_are_not_declared() -> None:
    wanted = {
        "compute_mode": "default",
        "power_limit": "default",
        "ecc": True,
        "persistence": False,
        "time_slice": "long",
    }
    assert modes.to_declare(wanted) == {"persistence": False, "time_slice": "long"}


def test_every_setting_has_a_default_or_is_kept_by_the_card() -> None:
    assert {*modes.AT_BOOT, *modes.KEPT_BY_CARD, "persistence"} == set(modes.SETTINGS)


def test_the_worst_need_is_the_one_that_counts() -> None:
    assert modes.worst(["none", "gpu_reset", "none"]) == "gpu_reset"
    assert modes.worst([]) == "none"


def test_entry_for_one_card_wins_in_any_order() -> None:
    merged = modes.merge_requests(
        [
            Entry("gpus[0]", "GPU-a", {"power_limit": "300 W", "ecc": None}),
            Entry("gpus[1]", "GPU-a", {"power_limit": "500 W", "ecc": True}, for_all=True),
        ]
    )
    assert merged["GPU-a"].wanted == {"power_limit": "300 W", "ecc": True}


@pytest.mark.parametrize("for_all", [False, True])
def test_two_entries_for_one_card_are_refused(for_all: bool) -> None:
    with pytest.raises(ValueError, match=r"`gpus\[0\]` and `gpus\[1\]` name one card, GPU-a"):
        modes.merge_requests([Entry(f"gpus[{number}]", "GPU-a", {}, for_all) for number in range(2)])


CLOCKS = st.one_of(
    st.just("unlocked"),
    st.tuples(st.integers(210, 1980), st.integers(210, 1980)).map(sorted),
)
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "persistence": st.booleans(),
        "compute_mode": st.sampled_from(sorted(modes.COMPUTE_MODES)),
        "power_limit": st.one_of(
            st.just("default"), st.integers(200, 700).map("{} W".format), st.integers(29, 100).map("{} %".format)
        ),
        "locked_gpu_clocks": CLOCKS,
        "accounting": st.booleans(),
        "ecc": st.booleans(),
        "time_slice": st.sampled_from(sorted(modes.TIME_SLICES)),
    },
)


@settings(max_examples=CASES)
@given(st.lists(REQUESTS, min_size=1, max_size=4))
def test_same_request_changes_nothing_the_second_time(
    requests: list[dict[str, Any]],
) -> None:
    state = H100
    for request in requests:
        plan = modes.plan(state, request, "gpus[0]")
        assert not (plan.problems and plan.changes)
        if plan.problems:
            continue
        state = dataclasses.replace(state, **{change.setting: change.after for change in plan.changes})
        again = modes.plan(state, request, "gpus[0]")
        assert (again.changes, again.needs) == ([], plan.needs)
        # What is declared for boots is a request that a card takes which has just been booted.
        booted = dataclasses.replace(H100, ecc=state.ecc, persistence=False)
        restored = modes.plan(booted, modes.to_declare(request), "gpus[0]")
        after = dataclasses.replace(booted, **{change.setting: change.after for change in restored.changes})
        assert {name: getattr(after, name) for name in plan.wanted} == plan.wanted

# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters, links and Xids compared with the last check."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import history
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.xid_log import Xid

from tests.unit.support.gpu.cards import card

SLOT = "0000:41:00"
NOW = 1_000_000.0


def kept(**signs: Any) -> Any:
    """Return the state after a check of such a card."""
    return history.remember(card(**signs), None, {}, {})


def taken_back(time: float) -> Xid:
    return Xid(154, SLOT, time, text="GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)")


def test_counters_are_compared_with_the_last_check() -> None:
    before = kept(counters__pcie__replays=5, counters__throttled__hw_thermal_ns=1_000_000_000)
    now = card(counters__pcie__replays=12, counters__throttled__hw_thermal_ns=4_000_000_000)
    more = history.compare(before, now, 600.0)
    assert more and (more["seconds"], more["pcie_replays"], more["hardware_slowdown_s"]) == (600.0, 7, 3.0)


def test_counter_that_began_again_has_no_negative_rise() -> None:
    more = history.compare(kept(counters__pcie__replays=500), card(counters__pcie__replays=3), 600.0)
    assert more and more["pcie_replays"] == 3


@pytest.mark.parametrize(("then", "now"), [(None, 7), (7, None), (None, None)])
def test_unknown_counter_has_an_unknown_rise(then: int | None, now: int | None) -> None:
    more = history.compare(kept(counters__pcie__replays=then), card(counters__pcie__replays=now), 600.0)
    assert more and more["pcie_replays"] is None


def test_nothing_is_compared_without_a_last_check() -> None:
    assert history.compare({}, card(), 600.0) is None
    assert history.compare(kept(), card(), -5.0) is None


def test_link_that_is_no_longer_active_is_named() -> None:
    links = [{"link": 0, "active": True}, {"link": 1, "active": False}]
    more = history.compare(kept(), card(nvlink__links=links), 600.0)
    assert more and more["nvlinks_gone"] == [1]
    lost = history.compare(kept(), card(nvlink=None), 600.0)
    assert lost and lost["nvlinks_gone"] is None


def test_xid_of_an_ended_program_is_over() -> None:
    xids = [Xid(31, SLOT, NOW, 7), Xid(31, SLOT, NOW, 8), Xid(31, SLOT, NOW)]
    still, over = history.split(xids, None, alive=frozenset({8}))
    assert [xid.pid for xid in still] == [8, None]
    assert [(row["pid"], row["over"]) for row in over] == [(7, "its process has ended")]


@pytest.mark.parametrize(
    ("alive", "users", "over"),
    [({1}, [], True), ({1}, [{"pid": 9}], False), ({1}, None, False), (None, [], False)],
)
def test_xid_without_a_program_is_over_on_an_idle_gpu(alive: Any, users: Any, over: bool) -> None:
    still, gone = history.split([Xid(94, SLOT, NOW)], None, alive, users)
    assert (bool(gone), bool(still)) == (over, not over)


def test_invisible_programs_do_not_count_as_ended() -> None:
    xids = [Xid(31, SLOT, NOW, 7)]
    assert history.split(xids, None, alive=None) == (xids, [])


def test_xid_with_a_reset_outlives_its_program() -> None:
    xids = [Xid(109, SLOT, NOW, 7), Xid(95, SLOT, NOW, 7)]
    assert history.split(xids, None, alive=frozenset()) == (xids, [])


def test_xids_before_a_recovery_are_over_later_ones_not() -> None:
    xids = [Xid(109, SLOT, NOW - 60), Xid(79, SLOT, NOW - 60), Xid(119, SLOT, NOW + 60), Xid(62, SLOT)]
    still, over = history.split(xids, NOW, None)
    # A card that fell off the bus does not come back by a reset.
    assert [xid.code for xid in still] == [79, 119, 62]
    assert [(row["code"], row["over"]) for row in over] == [(109, "the driver took back what it had asked for")]


def test_recovery_by_xid_154_or_between_two_checks() -> None:
    assert history.recovered_at({}, card(), [taken_back(NOW - 5)], NOW) == NOW - 5
    before = kept(counters__recovery_action="reset")
    assert history.recovered_at(before, card(), [], NOW) == NOW
    assert history.recovered_at(before, card(counters__recovery_action="reset"), [], NOW) is None
    assert history.recovered_at(before, card(counters__recovery_action=None), [], NOW) is None
    assert history.recovered_at(kept(), card(), [], NOW) is None
    assert history.recovered_at(kept() | {"recovered_at": NOW - 9}, card(), [], NOW) == NOW - 9


def test_xid_returns_after_two_reboots_and_not_before() -> None:
    state: Any = {}
    returns = []
    for number, boot in enumerate(["one", "one", "two", "three"]):
        boots = history.boots_with(state, [Xid(119, SLOT)], boot, NOW + number)
        returns.append(history.returned(boots, boot))
        state = history.remember(card(), None, boots, {})
    assert returns == [[], [], [], [119]]
    # It is there in this boot, or it is no return.
    assert history.returned(history.boots_with(state, [], "four", NOW + 9), "four") == []


def test_old_boots_and_program_xids_are_no_returns() -> None:
    old: Any = {"boots": {"119": {"one": NOW - history.REMEMBERED_S - 1, "two": NOW - 5}}}
    assert history.boots_with(old, [Xid(119, SLOT), Xid(31, SLOT)], "three", NOW) == {
        "119": {"two": NOW - 5, "three": NOW}
    }


def test_state_is_read_as_it_was_written() -> None:
    state = {"version": history.VERSION, "time": NOW, "boot": "one", "gpus": {"0000:41:00.0": kept()}}
    assert history.parse(json.dumps(state)) == state
    assert history.parse("") == {}


def state(gpu: Any = None, **changes: Any) -> str:
    """Return the text of a state with these changes of its GPU, or of itself."""
    row = {**kept(), "seen": True, "absent_in": {}, "events": {}, "pages": [], **(gpu or {})}
    return json.dumps(
        {"version": history.VERSION, "time": NOW, "boot": "one", "gpus": {"0000:41:00.0": row}, **changes}
    )


def test_state_of_an_earlier_or_later_version_is_read() -> None:
    early = {name: value for name, value in kept().items() if name not in ("seen", "absent_in", "events", "pages")}
    assert history.parse(state(gpus={"0000:41:00.0": early}))["time"] == NOW
    full = {"events": {"one": [[94, NOW, None, ""]]}, "pages": [[NOW, 3]], "boots": {"119": {"one": NOW}}, "later": 1}
    assert history.parse(state(full, booted=1.0, read_at=NOW))["booted"] == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"version": 99, "gpus": {}}',
        '{"version": 1}',
        "null",
        '{"version": 1, "gpus": {"a": 5}}',
        "[" * 100_000,
        state(time=None),
        state(time="x"),
        state(time=math.nan),
        state(time=10**400),
        state(boot=5),
        state(booted="x"),
        state({"uuid": 5}),
        state({"counters": None}),
        state({"counters": {"pcie_replays": "5"}}),
        state({"links": None}),
        state({"links": [None]}),
        state({"recovered_at": "x"}),
        state({"boots": None}),
        state({"boots": {"x": {"one": NOW}}}),
        state({"events": []}),
        state({"events": {"one": [[94, NOW]]}}),
        state({"absent_in": {"one": None}}),
        state({"pages": [5]}),
    ],
    ids=range(25),
)
def test_damaged_state_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        history.parse(text)

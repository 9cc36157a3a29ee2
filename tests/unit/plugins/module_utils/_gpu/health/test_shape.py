# SPDX-License-Identifier: GPL-3.0-or-later
"""Damaged states of the last check: a check reports them, and never ends with an error."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import cards
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.support.gpu.machine import NOW, Machine, xid

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cards.gpu_state, "read_card", lambda _nvml, facts, _tree: facts)
        found = Machine(tmp_path_factory.mktemp("host"))
        found.log(xid(119), xid(94))
        yield found


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values below a value."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in [(*path, key), *places(value[key], (*path, key))]]


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_damaged_value_is_reported_or_harmless(machine: Machine, data: st.DataObject) -> None:
    _result, state = machine.check()
    damaged = copy.deepcopy(state)
    *parents, last = data.draw(st.sampled_from(places(state)))
    place = damaged
    for key in parents:
        place = place[key]
    place[last] = data.draw(VALUES)
    result, again = machine.check(NOW + 600, kept=json.dumps(damaged))
    assert len(result["unread"]) <= 1
    assert machine.check(NOW + 1200, kept=json.dumps(again))[0]["unread"] == []

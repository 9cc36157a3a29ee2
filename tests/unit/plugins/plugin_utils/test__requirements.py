# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.plugin_utils._requirements import unmet

TOKEN = {"ok": True, "variable": "x_token", "problem": "is short", "remedy": "make a longer one"}
PORT = {"ok": True, "variable": "x_port", "problem": "is taken.", "remedy": "give another."}


def test_nothing_to_say_when_all_is_met():
    assert unmet([TOKEN, PORT]) == []


def test_every_problem_has_its_line():
    assert unmet([{**TOKEN, "ok": False}, {**PORT, "ok": False}]) == [
        "x_token: is short; make a longer one.",
        "x_port: is taken; give another.",
    ]


@pytest.mark.parametrize(
    ("that", "message"),
    [
        (TOKEN, "that must be a list"),
        ([TOKEN, "x_port is free"], "requirement 2 of that must have exactly the keys"),
        ([{**TOKEN, "hint": "?"}], "requirement 1 of that must have exactly the keys"),
        ([{"ok": True}], "requirement 1 of that must have exactly the keys"),
        ([{**TOKEN, "ok": "true"}], "ok of requirement 1 of that must be a boolean"),
        ([{**TOKEN, "ok": 1}], "ok of requirement 1 of that must be a boolean"),
        ([{**TOKEN, "remedy": None}], "remedy of requirement 1 of that must be a string"),
    ],
)
def test_refuses_what_is_no_list_of_requirements(that, message):
    with pytest.raises(ValueError, match=message):
        unmet(that)

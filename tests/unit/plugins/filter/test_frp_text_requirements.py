# SPDX-License-Identifier: GPL-3.0-or-later
"""Two opening braces anywhere in a value, and only there, are refused; the value itself is not shown."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.filter.frp_text_requirements import frp_text_requirements


@pytest.mark.parametrize("value", ["a{{b", ["x", {"deep": "{{ .Envs.HOME }}"}], {"{{key}}": 1}])
def test_braces_are_refused_by_the_name_of_the_variable(value):
    (requirement,) = [
        requirement
        for requirement in frp_text_requirements({"token": "plain", "extra": value})
        if not requirement["ok"]
    ]
    assert requirement["variable"] == "extra"
    assert "{{" not in requirement["problem"]


@pytest.mark.parametrize("value", ["", "{", "}}", "{ {", 7, None, {"a": {"b": {}}}, [[], {}]])
def test_everything_else_passes(value):
    assert all(requirement["ok"] for requirement in frp_text_requirements({"extra": value}))

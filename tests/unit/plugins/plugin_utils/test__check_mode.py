# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.plugin_utils._check_mode import changes

DUE = {"changed": True}


@pytest.mark.parametrize(
    ("variables", "role", "expected"),
    [
        ({"__web_written": DUE}, "web", True),
        ({"__web_written": {"changed": False}, "__web_paths": ["/etc"]}, "web", False),
        ({"__website_written": DUE, "web_written": DUE}, "web", False),
        ({"__web_written": DUE}, "door", False),
        ({"__web_written": DUE}, "", True),
        ({"written": DUE}, "", False),
    ],
)
def test_registered_results_of_a_role_count(variables, role, expected):
    assert changes(variables, role) is expected

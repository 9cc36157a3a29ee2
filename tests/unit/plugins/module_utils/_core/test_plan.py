# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan as the result of the action plan, which the tasks of a role take."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan import Packages, Plan, stopped


def test_result_has_the_values_of_the_role_beside_the_fields() -> None:
    found = Plan(files=[{"path": "/etc/x"}], values={"edition": "docker-ce"}).result()
    assert (found["edition"], found["files"], found["requirements"]) == ("docker-ce", [{"path": "/etc/x"}], ())
    assert "values" not in found and json.loads(json.dumps(found))["units"] == []


def test_value_with_the_name_of_a_field_is_refused() -> None:
    with pytest.raises(ValueError, match="values: files, units must be given as the field of this name"):
        Plan(values={"units": [], "files": [], "edition": ""})


@pytest.mark.parametrize(
    ("packages", "due"),
    [
        ({}, False),
        ({"install": ["samba"]}, True),
        ({"hold": ["samba"]}, True),
        ({"unhold": ["samba"]}, True),
        ({"files_due": True}, True),
        ({"files": [{"path": "/etc/x"}], "new_units": stopped("x.service")}, False),
    ],
)
def test_packages_are_due_for_what_changes(packages: dict[str, Any], due: bool) -> None:
    assert Plan(packages=Packages(**packages)).result()["packages"]["due"] is due

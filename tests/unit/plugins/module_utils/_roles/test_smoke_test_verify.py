# SPDX-License-Identifier: GPL-3.0-or-later
"""The proof of the role smoke_test: its result, check mode, and what it refuses."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import smoke_test as smoke_test_role

from tests.unit.support.plan import run_plan

Run = Callable[..., dict[str, Any]]

# It ends at once, and prints no report.
ENVIRONMENT = {"name": "here", "python": "/bin/true"}


@pytest.fixture
def train(run_module: Run) -> Run:
    """Return a function that runs the module as this user."""
    user = pwd.getpwuid(os.geteuid()).pw_name

    def run(check: bool = False, **options: Any) -> dict[str, Any]:
        wanted = {"user": user, "environments": [ENVIRONMENT], "images": [], **options}
        return run_plan(run_module, smoke_test_role, kind="verify", context={"program": ""}, check=check, **wanted)

    return run


@pytest.mark.parametrize("check", [False, True])
def test_module_changes_nothing_and_has_a_finding_a_place(train: Run, check: bool) -> None:
    result = train(check=check)

    assert result["changed"] is False
    assert [finding["id"] for finding in result["findings"]] == ["smoke_test.environment.here", "smoke_test.gpus"]


def test_two_environments_of_one_name_are_refused(train: Run) -> None:
    result = train(environments=[ENVIRONMENT, ENVIRONMENT])

    assert result["failed"] is True
    assert "environment here is listed twice" in result["msg"] and result["msg"].endswith("Nothing was run.")


def test_unknown_user_is_refused(train: Run) -> None:
    assert "There is no user nobody-of-that-name" in train(user="nobody-of-that-name")["msg"]

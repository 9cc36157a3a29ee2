# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts about a recorded host, with scripted programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import nvidia_driver as nvidia_driver_role

from tests.unit.support.plan import run_plan

Run = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(("check", "refreshed"), [(False, True), (True, False)])
def test_an_upgrade_refreshes_the_lists_of_apt_but_in_check_mode(
    run_module: Run, commands: list[list[str]], check: bool, refreshed: bool
) -> None:
    result = run_plan(run_module, nvidia_driver_role, {"host_name": "this host"}, upgrade=True, check=check)
    assert (result["source"], result["branch"]) == ("cuda_repository", 580)
    assert (["apt-get", "update", "--quiet"] in commands) is refreshed

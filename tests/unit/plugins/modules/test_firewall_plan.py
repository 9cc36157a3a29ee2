# SPDX-License-Identifier: GPL-3.0-or-later
"""The module firewall_plan itself; tests/unit/plugins/module_utils/_firewall/test_facts.py tests its plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.rigwright.workstation.plugins.modules import firewall_plan


def test_the_networks_of_ssh_are_required(run_module: Callable[..., dict[str, Any]]) -> None:
    result = run_module(firewall_plan, commands={})
    assert result["failed"] is True
    assert "ssh_networks" in result["msg"]

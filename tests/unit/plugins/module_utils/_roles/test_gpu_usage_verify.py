# SPDX-License-Identifier: GPL-3.0-or-later
"""The findings of gpu_usage, by the commands that the module runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import gpu_usage as gpu_usage_role

from tests.unit.support.plan import run_plan

SERVICE = "rigwright-gpu-usage.service"
SNAPSHOT = {"stale": False, "problem": "", "gpus": []}


def test_running_sampler_passes(run_module: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "group", lambda _name: None)
    commands = {
        "runuser --user nobody -- /usr/local/bin/gpu-who --json": (0, json.dumps(SNAPSHOT), ""),
        f"systemctl is-active {SERVICE}": (0, "active\n", ""),
        f"systemd-analyze security --no-pager {SERVICE}": (0, f"exposure level for {SERVICE}: 1.3 OK\n", ""),
    }

    def run(module: Any, **arguments: Any) -> dict[str, Any]:
        return run_module(module, commands=commands, **arguments)

    found = run_plan(run, gpu_usage_role, kind="verify", context={})
    assert {row["id"]: row["status"] for row in found["findings"]} == {
        f"gpu_usage.{name}": "pass" for name in ("confinement", "sampler", "fresh", "nvml")
    }
    assert not found["changed"]

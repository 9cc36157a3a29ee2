# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the modules for plan and verification. The tests of the plan itself are in tests/unit/plugins/module_utils/_nvidia."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import RECORD
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import nvidia_driver as nvidia_driver_role

from tests.unit.support.plan import run_plan

Run = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("kind", ["plan", "verify"])
def test_a_damaged_record_is_named(run_module: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(AnsibleModule, "run_command", lambda _self, _line, **_options: (0, "", ""))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(nvidia_driver_role, "ROOT", str(tmp_path))
    record = tmp_path / RECORD.lstrip("/")
    record.parent.mkdir(parents=True)
    record.write_text("{} {}")
    result = run_plan(run_module, nvidia_driver_role, {"host_name": "this host"}, kind=kind)
    assert result["failed"] is True
    assert RECORD in result["msg"]

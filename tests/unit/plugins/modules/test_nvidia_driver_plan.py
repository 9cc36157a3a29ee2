# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the modules for plan and verification. The tests of the plan itself are in tests/unit/plugins/module_utils/_nvidia."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import RECORD
from ansible_collections.rigwright.workstation.plugins.modules import nvidia_driver_plan, nvidia_driver_verify

from tests.unit.support.plan import run_plan

Run = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("module", [nvidia_driver_plan, nvidia_driver_verify])
def test_a_damaged_record_is_named(
    run_module: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType
) -> None:
    monkeypatch.setattr(AnsibleModule, "run_command", lambda _self, _line, **_options: (0, "", ""))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(module, "ROOT", str(tmp_path))
    record = tmp_path / RECORD.lstrip("/")
    record.parent.mkdir(parents=True)
    record.write_text("{} {}")
    result = run_plan(run_module, module, {"host_name": "this host"})
    assert result["failed"] is True
    assert RECORD in result["msg"]

# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures that the tests of several files share."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import (
    cuda_repository,
    cudnn_apply,
    driver_change,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_model import Request
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_plan import plan_driver
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import Record
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_state import DriverState
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import nvidia_driver as nvidia_driver_role

from tests.unit.plugins.conftest import run_killed, snapshot, synced
from tests.unit.support.nvidia import hosts as gpu_hosts
from tests.unit.support.nvidia.driver_states import See
from tests.unit.support.nvidia.machine import OLD, Machine
from tests.unit.support.nvidia.roots import Root
from tests.unit.support.nvidia.toolkit_host import ToolkitHost

__all__ = ["run_killed", "snapshot", "synced"]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(driver_change, "LOAD_TIMEOUT", 0)
    return Machine(tmp_path)


@pytest.fixture
def with_old(machine: Machine) -> Machine:
    """Return a machine that runs the previous driver."""
    machine.install(OLD)
    machine.load()
    return machine


@pytest.fixture
def gather(tmp_path: Path) -> Callable[[str], dict[str, Any]]:
    return lambda name: gpu_hosts.gather(name, tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


@pytest.fixture
def toolkit_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToolkitHost:
    """Return a host for the plans of CUDA and cuDNN."""
    for module in (cuda_repository, cudnn_apply):
        monkeypatch.setattr(module, "ROOT", str(tmp_path))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    return ToolkitHost(tmp_path)


@pytest.fixture
def see(tmp_path: Path) -> See:
    """Return a reader of recorded hosts: `see("healthy_workstation", {"branch": "590"}, record=..., loaded=...)`."""

    def look(
        name: str, request: dict[str, Any] | None = None, *, offered: Sequence[str] = (), **more: Any
    ) -> DriverState:
        facts = gpu_hosts.gather(name, Path(tempfile.mkdtemp(dir=tmp_path)))
        facts["free_bytes"] = dict.fromkeys(facts["free_bytes"], 10**12)
        facts["holders"] = [row for row in facts["holders"] if row["command"] == "nvidia-persiste"]
        for rows in facts["available"].values():
            rows += [{"version": version, "origins": ["cuda_repository"]} for version in offered]
        facts.update(more.pop("facts", {}))
        planned = plan_driver(facts, request or {})
        record = more.pop("record", Record())
        request_ = Request.from_dict({**(request or {}), "own_holds": record.held})
        return DriverState(facts=facts, plan=planned, record=record, request=request_, **more)

    return look


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Return the command lines that the module ran on a healthy workstation."""
    record = gpu_hosts.lay_out("healthy_workstation", tmp_path)
    lines: list[list[str]] = []

    def run_command(_self: AnsibleModule, line: list[str], **_options: Any) -> tuple[int, str, str]:
        lines.append(line)
        output = record["policy"] if line[3:] else record["sources"]
        return 0, output if line[:2] == ["apt-cache", "policy"] else "", ""

    monkeypatch.setattr(AnsibleModule, "run_command", run_command)
    for module in (nvidia_driver_role, cuda_repository):
        monkeypatch.setattr(module, "ROOT", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return lines

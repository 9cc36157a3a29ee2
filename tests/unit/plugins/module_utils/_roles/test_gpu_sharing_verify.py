# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about fake GPUs: as declared, changed by another program, or without an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode import run as mode_run
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing import run as sharing_run
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import gpu_sharing as gpu_sharing_role
from ansible_collections.rigwright.workstation.plugins.modules import gpu_mode

from harness.fakes import nvml as fake_nvml
from harness.fakes.nvml import Machine
from tests.unit.support.plan import run_role

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def machine() -> Iterator[Machine]:
    with fake_nvml.fake(["H200"]) as found:
        yield found


@pytest.fixture
def verified(run_module: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, str]]:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    for module in (sharing_run, gpu_mode):
        monkeypatch.setattr(module, "ROOT", str(tmp_path))
    monkeypatch.setattr(sharing_run, "ENVIRONMENT", str(tmp_path / "opt/rigwright/python"))
    monkeypatch.setattr(mode_run, "is_root", lambda: True)
    monkeypatch.setattr(AnsibleModule, "run_command", lambda *_arguments, **_options: (0, "", ""))

    def run(**options: Any) -> dict[str, str]:
        request = {"state": "present", "limits": [], "jobs": [], "when_clients": "defer", **options}
        found = run_role(run_module, gpu_sharing_role, {**request, "python": ""}, kind="verify")
        assert not found["changed"]
        return {row["id"]: row["status"] for row in found["findings"]}

    return run


def test_sharing_is_compared_with_the_declaration(
    verified: Callable[..., dict[str, str]], run_module: Run, machine: Machine
) -> None:
    gpus = [{"device": "all", "persistence": True, "users": "team"}]
    assert verified(gpus=gpus)["gpu_sharing.declared"] == "fail"
    run_module(gpu_mode, gpus=[{"device": "all", "persistence": True}], exclusive=True)
    assert verified(gpus=gpus) == {
        "gpu_sharing.declared": "pass",
        "gpu_sharing.complete": "pass",
        "gpu_sharing.gpu0": "pass",
    }


def test_driver_without_an_answer_is_a_finding(verified: Callable[..., dict[str, str]], machine: Machine) -> None:
    machine.upgrade_library("590.48.01")
    assert verified(gpus=[{"device": "all"}])["gpu_sharing.declared"] == "fail"

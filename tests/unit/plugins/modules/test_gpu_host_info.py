# SPDX-License-Identifier: GPL-3.0-or-later
"""The module on recorded hosts, with a scripted apt-cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.modules import gpu_host_info

from tests.unit.support.nvidia import hosts as gpu_hosts

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the command lines that the module ran. apt-cache knows no package."""
    lines: list[list[str]] = []

    def run_command(_self: AnsibleModule, line: list[str], **_options: Any) -> tuple[int, str, str]:
        lines.append(line)
        return 0, "", ""

    monkeypatch.setattr(AnsibleModule, "run_command", run_command)
    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda _self, name: name)
    return lines


def test_facts_of_a_host(run_module: Run, commands: list[list[str]], tmp_path: Path) -> None:
    gpu_hosts.lay_out("nouveau_bound", tmp_path)

    result = run_module(gpu_host_info, root=str(tmp_path))

    assert result["changed"] is False
    assert result["gpus"][0]["generation"] == "Blackwell"
    # Two questions, below the root that was named: of the sources, and of the packages.
    sources, packages = commands
    assert sources == ["apt-cache", "-o", f"Dir={tmp_path}", "policy"]
    assert packages[:4] == sources
    assert "linux-headers-6.12.107+deb13-amd64" in packages


def test_check_mode_returns_the_same(run_module: Run, commands: list[list[str]], tmp_path: Path) -> None:
    gpu_hosts.lay_out("healthy_workstation", tmp_path)
    before = sorted(tmp_path.rglob("*"))
    first, second = (run_module(gpu_host_info, root=str(tmp_path), check=check) for check in (False, True))
    assert {**first, "free_bytes": {}} == {**second, "free_bytes": {}}
    assert sorted(tmp_path.rglob("*")) == before


def test_a_system_without_apt(run_module: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda _self, _name: None)
    gpu_hosts.lay_out("recorded_h200", tmp_path)
    result = run_module(gpu_host_info, root=str(tmp_path), commands=None)
    assert result["available"] == {}
    assert result["gpus"][0]["name"] == "NVIDIA H200"


def test_this_machine(run_module: Run) -> None:
    """Read the real /proc, /sys and apt-cache without an error, whatever this machine is."""
    result = run_module(gpu_host_info)
    assert result.get("failed") is not True
    assert result["next_kernel"]["release"]
    assert any(kernel["running"] for kernel in result["kernels"])

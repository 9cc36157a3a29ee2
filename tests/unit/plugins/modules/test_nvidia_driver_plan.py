# SPDX-License-Identifier: GPL-3.0-or-later
"""The module on recorded hosts, with scripted programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.modules import nvidia_driver_plan

from tests.unit import gpu_hosts

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """The command lines that the module ran on a healthy workstation."""
    record = gpu_hosts.lay_out("healthy_workstation", tmp_path)
    lines: list[list[str]] = []

    def run_command(_self: AnsibleModule, line: list[str], **_options: Any) -> tuple[int, str, str]:
        lines.append(line)
        said = record["policy"] if line[3:] else record["sources"]
        return 0, said if line[:2] == ["apt-cache", "policy"] else "", ""

    monkeypatch.setattr(AnsibleModule, "run_command", run_command)
    monkeypatch.setattr(nvidia_driver_plan, "ROOT", str(tmp_path))
    return lines


@pytest.mark.parametrize(("check", "refreshed"), [(False, True), (True, False)])
def test_an_upgrade_refreshes_the_lists_of_apt_but_in_check_mode(
    run_module: Run, asked: list[list[str]], check: bool, refreshed: bool
) -> None:
    result = run_module(nvidia_driver_plan, upgrade=True, check=check)
    assert (result["source"], result["branch"]) == ("cuda_repository", 580)
    assert (["apt-get", "update", "--quiet"] in asked) is refreshed

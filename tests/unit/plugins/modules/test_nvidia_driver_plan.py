# SPDX-License-Identifier: GPL-3.0-or-later
"""The module on recorded hosts, with scripted programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_change import RECORD
from ansible_collections.rigwright.workstation.plugins.modules import nvidia_driver_plan

from tests.unit.support.nvidia import hosts as gpu_hosts

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


def test_check_mode_tells_what_dpkg_has_not_finished(run_module: Run, asked: list[list[str]], tmp_path: Path) -> None:
    status = tmp_path / "var/lib/dpkg/status"
    whole, half = (f"Package: libcuda1\nStatus: install ok {word}" for word in ("installed", "unpacked"))
    assert whole in status.read_text()
    before = run_module(nvidia_driver_plan, check=True, lock=False)
    assert [before[key] for key in ("unfinished", "unsettled", "pending")] == [[], False, False]
    status.write_text(status.read_text().replace(whole, half))
    told = run_module(nvidia_driver_plan, check=True, lock=False)
    assert [told[key] for key in ("unfinished", "unsettled", "pending")] == [["libcuda1"], True, True]
    # What is taken away need not be whole.
    assert run_module(nvidia_driver_plan, state="absent")["unsettled"] is False


def test_absent_leaves_programs_alone_where_nothing_of_the_driver_goes(
    run_module: Run, asked: list[list[str]], tmp_path: Path
) -> None:
    assert run_module(nvidia_driver_plan, state="absent")["requirements"] == []
    record = tmp_path / RECORD.lstrip("/")
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"brought": ["libcuda1", "nvidia-driver-cuda"]}))
    told = run_module(nvidia_driver_plan, state="absent")
    assert told["going"] == ["libcuda1", "nvidia-driver-cuda"]
    assert [row["ok"] for row in told["requirements"]] == [False]


def test_a_damaged_record_is_named(run_module: Run, asked: list[list[str]], tmp_path: Path) -> None:
    record = tmp_path / RECORD.lstrip("/")
    record.parent.mkdir(parents=True)
    record.write_text("{} {}")
    result = run_module(nvidia_driver_plan)
    assert result["failed"] is True
    assert RECORD in result["msg"]

# SPDX-License-Identifier: GPL-3.0-or-later
"""The module firewall_load: the program for the boot, and the removal of everything."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.modules import firewall_load

Run = Callable[..., dict[str, Any]]
PROGRAM = "usr/local/lib/rigwright/firewall.pyz"
UNCONFIRMED = "var/lib/rigwright_firewall/unconfirmed"


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the commands of the module; the fake nft has no table and accepts all files."""
    ran: list[str] = []

    def run_command(_self: AnsibleModule, command: list[str], **_options: Any) -> tuple[int, str, str]:
        ran.append(" ".join(command).replace(str(tmp_path), ""))
        return (1, "", "") if "list" in command else (0, "", "")

    (tmp_path / "etc/nftables.d").mkdir(parents=True)
    (tmp_path / "etc/nftables.d/rigwright.nft").write_text("rules\n")
    monkeypatch.setattr(firewall_load, "ROOT", str(tmp_path))
    monkeypatch.setattr(AnsibleModule, "run_command", run_command)
    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda _self, name, *_rest, **_options: name)
    return ran


def test_the_timer_starts_before_the_load_and_ends_confirmed(
    run_module: Run, commands: list[str], tmp_path: Path
) -> None:
    assert run_module(firewall_load, seconds=30)["changed"] is True
    armed = next(number for number, line in enumerate(commands) if "--on-active=30" in line)
    assert armed < commands.index("nft --file /etc/nftables.d/rigwright.nft")
    assert (tmp_path / UNCONFIRMED).exists()

    assert run_module(firewall_load, state="confirmed")["changed"] is False
    assert not (tmp_path / UNCONFIRMED).exists()
    assert "systemctl --quiet stop rigwright-firewall-undo.timer" in commands


def test_a_confirmation_that_comes_too_late_fails(run_module: Run, commands: list[str], tmp_path: Path) -> None:
    run_module(firewall_load)
    (tmp_path / UNCONFIRMED).write_text("undone")
    assert "nobody confirmed the change in time" in run_module(firewall_load, state="confirmed")["msg"]


def test_the_program_for_the_boot_needs_no_ansible(run_module: Run, commands: list[str], tmp_path: Path) -> None:
    run_module(firewall_load)
    program = str(tmp_path / PROGRAM)
    command = [sys.executable, "-I", "-S", "-B", program, "unknown"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "KeyError: 'unknown'" in done.stderr


def test_check_mode_changes_nothing(run_module: Run, commands: list[str], tmp_path: Path) -> None:
    assert run_module(firewall_load, check=True)["changed"] is True
    assert run_module(firewall_load, check=True, state="absent")["changed"] is False
    assert not (tmp_path / PROGRAM).exists()
    assert not any("--file" in line for line in commands)


def test_absent_removes_everything(run_module: Run, commands: list[str], tmp_path: Path) -> None:
    run_module(firewall_load)
    assert run_module(firewall_load, check=True, state="absent")["changed"] is True
    assert run_module(firewall_load, state="absent")["changed"] is True
    assert "nft add table inet rigwright; delete table inet rigwright" in commands
    remaining = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert remaining == [tmp_path / "etc/nftables.d/rigwright.nft"]
    assert not (tmp_path / PROGRAM).parent.exists()
    assert run_module(firewall_load, state="absent")["changed"] is False


def test_a_run_killed_at_any_step_is_completed_by_the_next(
    run_module: Run,
    commands: list[str],
    run_killed: Callable[..., bool],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for state in ("loaded", "absent"):
        step = 1
        while run_killed(firewall_load, step, state=state):
            step += 1
        assert step > 1
    capfd.readouterr()
    assert run_module(firewall_load)["changed"] is True
    run_module(firewall_load, state="confirmed")
    assert (tmp_path / PROGRAM).exists()
    assert not (tmp_path / UNCONFIRMED).exists()

# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's log, from the journal or from dmesg."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import cards, facts

from tests.unit.support.gpu.machine import JOURNAL, NOW, Machine, entry, xid


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(cards.gpu_state, "read_card", lambda _nvml, facts, _tree: facts)
    return Machine(tmp_path)


def test_unreadable_log_is_listed_as_unread(machine: Machine) -> None:
    machine.answers[JOURNAL] = (1, "", "No journal files were opened due to insufficient permissions.\n")
    result, _state = machine.check()
    assert result["verdict"] == "PASS"
    (unread,) = result["unread"]
    assert "insufficient permissions" in unread and "Operation not permitted" in unread and "systemd-journal" in unread


@pytest.mark.parametrize("journal", [(127, "", "journalctl is not there"), (0, "", ""), (0, "\n", "Hint: You are ...")])
def test_dmesg_is_read_where_the_journal_is_empty(machine: Machine, journal: tuple[int, str, str]) -> None:
    machine.answers[JOURNAL] = journal
    machine.answers["dmesg"] = (0, "[ 3000.000000] NVRM: Xid (PCI:0000:41:00): 109, Ch 00000008\n", "")
    result, _state = machine.check()
    assert (result["verdict"], result["unread"]) == ("RESET_GPU", [])
    assert result["gpus"][0]["xids"][0]["time"] == NOW - 600


def test_dmesg_has_the_times_of_its_own_clock(machine: Machine) -> None:
    """The uptime counts suspended time, and dmesg does not."""
    machine.answers[JOURNAL] = (127, "", "")
    machine.answers["dmesg"] = (0, "[ 3000.000000] NVRM: Xid (PCI:0000:41:00): 109, Ch 00000008\n", "")
    machine.write("/proc/uptime", "90000.00 1.00\n")
    assert machine.check(window=900)[0]["verdict"] == "RESET_GPU"


@pytest.mark.parametrize(("rc", "error"), [(1, ""), (0, "")])
def test_journal_without_lines_of_the_driver_counts_as_read(machine: Machine, rc: int, error: str) -> None:
    machine.run = lambda command: (  # type: ignore[method-assign]
        (rc, "", error) if facts.DRIVERS_LINES[-1] in command else (0, "Linux version 6.12\n", "")
    )
    assert (machine.check()[0]["verdict"], machine.check()[0]["unread"]) == ("PASS", [])


def test_journalctl_without_grep_is_read_completely(machine: Machine) -> None:
    def run(command: Any) -> tuple[int, str, str]:
        if facts.DRIVERS_LINES[-1] in command:
            return 1, "", "Compiled without pattern matching support\n"
        return 0, entry("Linux version 6.12") + xid(109), ""

    machine.run = run  # type: ignore[method-assign]
    assert machine.check()[0]["verdict"] == "RESET_GPU"

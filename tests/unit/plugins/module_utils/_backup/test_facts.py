# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts about a host that the backups depend on; the module's test (test_backup_plan.py) reads a whole host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import facts
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.record import RECORD
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree


def test_a_damaged_record_is_empty(tmp_path: Path) -> None:
    record = tmp_path / RECORD.lstrip("/")
    record.parent.mkdir(parents=True)
    assert facts.read_record(Tree(str(tmp_path))) == {}
    cases: list[tuple[str, dict[str, Any]]] = [('{"damaged', {}), ("[]", {}), ('{"disk": {}}', {"disk": {}})]
    for text, expected in cases:
        record.write_text(text)
        assert facts.read_record(Tree(str(tmp_path))) == expected


def test_a_schedule_that_never_comes_is_a_problem() -> None:
    answers = {
        "daily": (0, "Next elapse: tomorrow", ""),
        "2020-01-01": (0, "Next elapse: never", ""),
        "odd": (1, "", "no"),
    }

    def run(command: list[str], **_options: Any) -> tuple[int, str, str]:
        return answers[command[-1]]

    assert facts.ask_calendar(run, ["daily", "2020-01-01", "odd", ""]) == {
        "2020-01-01": "it never comes",
        "daily": "",
        "odd": "no",
    }


def test_systemd_is_not_asked_without_services() -> None:
    assert facts.read_outdated(lambda _command: (1, "", ""), []) is False

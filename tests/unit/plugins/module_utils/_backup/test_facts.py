# SPDX-License-Identifier: GPL-3.0-or-later
"""Units, records and schedules of a host. Whole runs are in the tests of backup_plan."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import facts
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.record import RECORD
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.units import FOLDER
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree


@pytest.mark.parametrize(("text", "record"), [("", {}), ("{", {}), ("[]", {}), ('{"disk": {}}', {"disk": {}})])
def test_damaged_record_counts_as_none(tmp_path: Path, text: str, record: dict[str, object]) -> None:
    path = tmp_path / RECORD.lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert facts.read_record(Tree(str(tmp_path))) == record


def test_units_of_backups_are_known_by_their_names(tmp_path: Path) -> None:
    folder = tmp_path / FOLDER.lstrip("/")
    folder.mkdir(parents=True)
    for name in ("rigwright-backup-run-home.service", "ssh.service"):
        (folder / name).touch()
    assert facts.read_units(Tree(str(tmp_path))) == ["rigwright-backup-run-home.service"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ((0, "Next elapse: Mon", ""), ""),
        ((0, "Next elapse: never", ""), "it never comes"),
        ((1, "", "Failed to parse"), "Failed to parse"),
        ((1, "", ""), "it ends with 1"),
    ],
)
def test_systemd_judges_schedules(answer: tuple[int, str, str], problem: str) -> None:
    module: Any = SimpleNamespace(run_command=lambda _command: answer)
    assert facts.ask_calendar(module, ["daily", ""]) == {"daily": problem}


def test_no_service_is_outdated_where_there_is_none() -> None:
    assert facts.read_outdated(cast("Any", None), []) is False

# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings from what the program of the backups and systemd-analyze print."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import verify
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding

ROWS = [
    {"id": "backup.run.home", "status": "pass", "evidence": "2 h ago", "remedy": ""},
    {"id": "backup.repository.disk", "status": "fail", "evidence": "disk: no such directory", "remedy": "mount it"},
]
REQUEST: Any = {"jobs": [{"name": "home", "paths": ["/home"]}], "repositories": [{"name": "disk"}, {"name": "nas"}]}
RATED = "".join(
    f"→ Overall exposure level for rigwright-backup-{unit}.service: {exposure} OK\n"
    for unit, exposure in (("run-home", 1.7), ("check-disk", 1.4))
)


def found(outcome: tuple[int, str, str]) -> dict[str, Finding]:
    commands = []

    def run(command: list[str], **_options: Any) -> tuple[int, str, str]:
        commands.append(command)
        return (0, RATED, "") if command[0] == "systemd-analyze" else outcome

    rows: Any = {row["id"]: row for row in verify.findings(run, REQUEST)}
    assert commands[1] == ["/usr/local/sbin/rigwright-backup", "status", "--json", "--probe"]
    return rows


def test_findings_of_the_program_are_kept() -> None:
    # A finding that fails ends the program with 1.
    rows = found((1, json.dumps({"findings": ROWS}, indent=1), ""))
    assert [rows[row["id"]] for row in ROWS] == ROWS
    assert rows["backup.confinement"]["status"] == "pass"


@pytest.mark.parametrize(
    ("outcome", "evidence"),
    [
        ((127, "", "/usr/local/sbin/rigwright-backup: No such file or directory"), "rigwright-backup: No such file"),
        ((1, "", "Traceback\nthe configuration is damaged, run the role backup: x\n"), "the configuration is damaged"),
        ((0, "{cut", ""), "no output"),
        ((0, "", "\n"), "no output"),
    ],
)
def test_a_program_without_findings_fails(outcome: tuple[int, str, str], evidence: str) -> None:
    row = found(outcome)["backup.program"]
    assert (row["status"], row["remedy"]) == ("fail", "run the role backup") and evidence in row["evidence"]


@pytest.mark.parametrize(
    ("jobs", "units"),
    [
        ([{"name": "ws1", "host": "ws1", "schedule": ""}], ["check-disk"]),
        ([{"name": "ws1", "paths": None}, {"name": "home", "paths": ["/home"]}], ["run-home", "check-disk"]),
        ([{"name": "wiki", "paths": [], "dumps": [{"name": "a", "command": ["x"]}]}], ["run-wiki", "check-disk"]),
    ],
)
def test_only_existing_units_are_rated(jobs: list[Any], units: list[str]) -> None:
    request: Any = {"jobs": jobs, "repositories": [{"name": "disk"}, {"name": "nas"}]}
    rated = verify.rated_units(request)
    assert rated == [f"rigwright-backup-{unit}.service" for unit in units]

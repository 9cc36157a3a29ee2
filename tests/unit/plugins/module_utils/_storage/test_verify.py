# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings from what findmnt, systemctl, logins and the dataset cache print."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.verify import environment, findings

STATUS = ["dataset-cache", "status"]
DISKS = {"id": "storage.disks", "status": "pass", "evidence": "all there", "remedy": ""}
REQUEST: Any = {
    "findings": [DISKS],
    "trim": True,
    "container": False,
    "cache_directory": "/scratch/cache",
    "cache_status": STATUS,
    "users": ["alice"],
    "environment": {"HF_HOME": "/scratch/hf"},
}
OUTPUTS = {
    "findmnt": (0, "Success, no errors or warnings detected\n", ""),
    "systemctl": (0, "active\n", ""),
    "dataset-cache": (0, "{}", ""),
    "sh": (0, "", ""),
    "systemd-analyze": (0, "Overall exposure level for dataset-cache-evict.service: 1.1 OK", ""),
}


def found(request: Any, **outputs: tuple[int, str, str]) -> dict[str, Finding]:
    answers: Any = {**OUTPUTS, **{name.replace("_", "-"): output for name, output in outputs.items()}}
    return {row["id"]: row for row in findings(lambda command, **_options: answers[command[0]], request)}


def test_all_is_well() -> None:
    assert {row["status"] for row in found(REQUEST).values()} == {"pass"}


@pytest.mark.parametrize(
    ("outputs", "identifier", "evidence"),
    [
        ({"findmnt": (1, "", "/data: unreachable\n")}, "storage.fstab", "/data: unreachable"),
        ({"systemctl": (3, "inactive\n", "")}, "storage.trim", "fstrim.timer is inactive"),
        ({"dataset_cache": (2, "", "no such group\n")}, "storage.cache", "no such group"),
        ({"sh": (1, "", "")}, "storage.environment", "without HF_HOME: alice"),
    ],
)
def test_what_is_wrong_fails(outputs: Any, identifier: str, evidence: str) -> None:
    row = found(REQUEST, **outputs)[identifier]
    assert row["status"] == "fail" and evidence in row["evidence"] and row["remedy"]


def test_what_nobody_asks_for_is_skipped() -> None:
    request: Any = {**REQUEST, "trim": False, "cache_directory": "", "environment": {}}
    rows = found(request)
    assert [rows[f"storage.{name}"]["status"] for name in ("trim", "cache", "environment")] == ["skip"] * 3
    assert "storage.confinement" not in rows


def test_a_missing_disk_explains_the_line_in_fstab() -> None:
    disks = {**DISKS, "status": "fail", "remedy": "connect the disk"}
    rows = found({**REQUEST, "findings": [disks]}, findmnt=(1, "", "x\n"))
    assert rows["storage.fstab"]["remedy"] == "connect the disk"


def test_login_check_keeps_nothing_but_declared_variables(tmp_path: Path) -> None:
    runuser = tmp_path / "runuser"
    runuser.write_text('#!/bin/sh\nexport A=1 TOKEN=secret\necho "$TOKEN"; echo "$TOKEN" >&2\nexec sh -c "$4"\n')
    runuser.chmod(0o755)
    outputs = []

    def run(command: list[str], **_options: Any) -> tuple[int, str, str]:
        path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=path)
        outputs.append(done.stdout + done.stderr)
        return done.returncode, done.stdout, done.stderr

    assert [environment(run, ["alice"], names)["status"] for names in (["A"], ["A", "B"])] == ["pass", "fail"]
    assert outputs == ["", ""]

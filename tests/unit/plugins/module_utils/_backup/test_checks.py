# SPDX-License-Identifier: GPL-3.0-or-later
"""Every fault names a variable of the role and a remedy; which faults there are: test__backup_plan.py."""

from __future__ import annotations

import yaml
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.checks import Host, faults

from tests.unit.support.backup.hosts import CHECKOUT, request


def test_all_faults_are_told_at_once_each_with_a_variable_that_there_is() -> None:
    known = yaml.safe_load((CHECKOUT / "roles/backup/defaults/main.yml").read_text())
    wrong = request(
        repositories=[],
        jobs=[{"name": "X", "paths": ["x"], "retention": {}, "repository": "none"}],
        host="",
        user="root",
        drill_paths=["x"],
        retry_lock_s=-1,
        max_age_h={"run": 0},
        textfile_directory="x",
    )
    found = list(faults(wrong, Host()))
    assert len(found) >= 10
    assert {row["variable"] for row in found} <= {*known}
    assert all(row["problem"] and row["remedy"] and row["ok"] is False for row in found)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Every problem names a variable of the role and a remedy; which problems there are: test_plan.py."""

from __future__ import annotations

import yaml
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.checks import Host, problems

from tests.unit.support.backup.hosts import CHECKOUT, request


def test_all_problems_are_reported_at_once_with_a_variable() -> None:
    defaults = yaml.safe_load((CHECKOUT / "roles/backup/defaults/main.yml").read_text())
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
    found = list(problems(wrong, Host()))
    assert len(found) >= 10
    assert {row["variable"] for row in found} <= {*defaults}
    assert all(row["problem"] and row["remedy"] and row["ok"] is False for row in found)

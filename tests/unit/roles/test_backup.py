# SPDX-License-Identifier: GPL-3.0-or-later
"""Which units the role backup rates, and which stamps it takes away, by what is asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

VARS = Path(__file__).parents[3] / "roles/backup/vars/main.yml"
GONE = [{"name": f"rigwright-backup-run-home.{kind}"} for kind in ("timer", "service")]


@pytest.mark.parametrize(
    ("jobs", "units"),
    [
        ([{"name": "ws1", "host": "ws1", "schedule": ""}], ["check-disk"]),
        ([{"name": "ws1"}, {"name": "home", "paths": ["/home"]}], ["run-home", "check-disk"]),
        ([{"name": "wiki", "paths": [], "dumps": [{"name": "a", "command": ["x"]}]}], ["run-wiki", "check-disk"]),
    ],
)
def test_only_existing_units_are_rated(
    run_tasks: Callable[..., Any], jobs: list[dict[str, Any]], units: list[str]
) -> None:
    wanted = [f"rigwright-backup-{unit}.service" for unit in units]
    stamps = ["/var/lib/systemd/timers/stamp-rigwright-backup-run-home.timer"]
    run = run_tasks(
        [
            {"ansible.builtin.include_vars": str(VARS)},
            {
                "ansible.builtin.assert": {
                    "that": [f"__backup_sandboxed == {wanted}", f"__backup_leftovers_stamps == {stamps}"]
                },
                "vars": {
                    "backup_jobs": jobs,
                    "backup_repositories": [{"name": "disk"}],
                    "__backup_plan": {"units_gone": GONE},
                },
            },
        ]
    )
    assert run.rc == 0, run.output

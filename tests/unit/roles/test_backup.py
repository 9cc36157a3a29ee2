# SPDX-License-Identifier: GPL-3.0-or-later
"""The stamps of timers that the role backup removes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

VARS = Path(__file__).parents[3] / "roles/backup/vars/main.yml"
GONE = [{"name": f"rigwright-backup-run-home.{kind}"} for kind in ("timer", "service")]


def test_stamps_of_removed_timers_are_leftovers(run_tasks: Callable[..., Any]) -> None:
    stamps = ["/var/lib/systemd/timers/stamp-rigwright-backup-run-home.timer"]
    run = run_tasks(
        [
            {"ansible.builtin.include_vars": str(VARS)},
            {
                "ansible.builtin.assert": {"that": [f"__backup_leftovers_stamps == {stamps}"]},
                "vars": {"__backup_plan": {"units_gone": GONE}},
            },
        ]
    )
    assert run.rc == 0, run.output

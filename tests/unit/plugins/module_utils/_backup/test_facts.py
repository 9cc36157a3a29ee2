# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts about a host that the backups depend on; the module's test (test_backup_plan.py) reads a whole host."""

from __future__ import annotations

from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import facts


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

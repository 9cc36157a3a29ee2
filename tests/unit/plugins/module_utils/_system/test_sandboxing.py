# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._system.sandboxing import check

GOOD = "→ Overall exposure level for a.service: 1.2 OK :-)\n"
OPEN = "→ Overall exposure level for b.service: 9.6 UNSAFE\n"


@pytest.mark.parametrize(
    ("output", "units", "status", "evidence"),
    [
        (GOOD, ["a.service"], "pass", "a.service 1.2"),
        (GOOD + OPEN, ["a.service", "b.service"], "warn", "b.service 9.6"),
        ("", ["a.service"], "warn", "systemd-analyze reported none"),
    ],
)
def test_each_unit_has_to_be_below_the_limit(output: str, units: list[str], status: str, evidence: str) -> None:
    found = check(lambda _command, **_options: (0, output, ""), "x", units)
    assert (found["id"], found["status"]) == ("x.confinement", status)
    assert evidence in found["evidence"]

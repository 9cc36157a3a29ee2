# SPDX-License-Identifier: GPL-3.0-or-later
"""Times, counts and addresses that fail2ban would not read are refused with the variable and the entry."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._system.fail2ban import is_idle, problems

REQUEST: dict[str, Any] = {
    "fail2ban_bantime": "1h",
    "fail2ban_findtime": "10m",
    "fail2ban_maxretry": 5,
    "fail2ban_ignoreip": [],
}


def refused(**options: Any) -> dict[str, str]:
    return {entry["variable"]: entry["problem"] for entry in problems("xrdp", {**REQUEST, **options})}


@pytest.mark.parametrize(
    ("options", "variable", "why"),
    [
        ({"fail2ban_bantime": "soon"}, "xrdp_fail2ban_bantime", "'soon', which is not a time"),
        ({"fail2ban_findtime": "10 minutes"}, "xrdp_fail2ban_findtime", "'10 minutes', which is not a time"),
        ({"fail2ban_maxretry": 0}, "xrdp_fail2ban_maxretry", "is 0"),
        ({"fail2ban_ignoreip": ["192.0.2.9", "192.0.2.0/33"]}, "xrdp_fail2ban_ignoreip", "has '192.0.2.0/33', which"),
        ({"fail2ban_ignoreip": ["192.0.2.300"]}, "xrdp_fail2ban_ignoreip", "has '192.0.2.300', which"),
        ({"fail2ban_ignoreip": ["a\nb"]}, "xrdp_fail2ban_ignoreip", "which is no address"),
    ],
)
def test_a_wrong_entry_is_refused_and_named(options: dict[str, Any], variable: str, why: str) -> None:
    assert why in refused(**options)[variable]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fail2ban_bantime": "-1", "fail2ban_findtime": "1d 12h"},
        {"fail2ban_ignoreip": ["192.0.2.9", "192.0.2.0/24", "2001:db8::/32", "laptop.example.org"]},
    ],
)
def test_options_that_fail2ban_reads_are_accepted(options: dict[str, Any]) -> None:
    assert refused(**options) == {}


def test_all_is_refused_at_once() -> None:
    options = {"fail2ban_bantime": "soon", "fail2ban_maxretry": 0, "fail2ban_ignoreip": ["/"]}
    assert {*refused(**options)} == {"xrdp_fail2ban_bantime", "xrdp_fail2ban_maxretry", "xrdp_fail2ban_ignoreip"}


@pytest.mark.parametrize(
    ("active", "at_boot", "idle"),
    [
        ("inactive", "", True),  # not installed
        ("inactive", "disabled", True),
        ("failed", "disabled", True),
        ("active", "disabled", False),
        ("inactive", "enabled", False),
    ],
)
def test_fail2ban_is_idle_if_stopped_and_disabled(active: str, at_boot: str, idle: bool) -> None:
    text = f"Id=fail2ban.service\nNames=fail2ban.service\nActiveState={active}\nUnitFileState={at_boot}\n"
    assert is_idle(lambda _command, **_options: (0, text, "")) is idle

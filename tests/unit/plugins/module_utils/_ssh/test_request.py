# SPDX-License-Identifier: GPL-3.0-or-later
"""Invalid requests are refused with the variable and the entry."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.request import input_problems

REQUEST: Any = {
    "ports": [22],
    "listen_addresses": [],
    "authorized_keys": [],
    "allow_groups": [],
    "max_auth_tries": 4,
    "client_alive_interval": 120,
    "client_alive_count_max": 3,
    "extra_options": {},
    "fail2ban_bantime": "1h",
    "fail2ban_findtime": "10m",
    "fail2ban_maxretry": 5,
    "fail2ban_ignoreip": [],
}


def refused(**changes: Any) -> dict[str, str]:
    return {problem["variable"]: problem["problem"] for problem in input_problems(REQUEST | changes)}


@pytest.mark.parametrize(
    ("changes", "variable", "why"),
    [
        ({"ports": []}, "ssh_ports", "has none"),
        ({"ports": [0, 22, 70000]}, "ssh_ports", "has 0, 70000"),
        ({"listen_addresses": ["::1", "lab"]}, "ssh_listen_addresses", "has 'lab'"),
        ({"authorized_keys": [{"user": "a", "keys": []}] * 2}, "ssh_authorized_keys", "more than one entry for a"),
        ({"allow_groups": [{"name": "a b", "members": []}]}, "ssh_allow_groups", "'a b', which is not a group name"),
        ({"allow_groups": [{"name": "a", "members": ["b c"]}]}, "ssh_allow_groups", "'b c', which is not a user name"),
        ({"max_auth_tries": 0}, "ssh_max_auth_tries", "is 0"),
        ({"client_alive_interval": -1}, "ssh_client_alive_interval", "is -1"),
        ({"extra_options": {"Port": 23}}, "ssh_extra_options", "sets port"),
        ({"extra_options": {"Match": "User a"}}, "ssh_extra_options", "sets match"),
        ({"extra_options": {"Banner": "a\nPort 23"}}, "ssh_extra_options", "several lines"),
        ({"extra_options": {"Use DNS": True}}, "ssh_extra_options", "not a keyword"),
    ],
)
def test_a_wrong_entry_is_refused_and_named(changes: Any, variable: str, why: str) -> None:
    assert why in refused(**changes)[variable]


def test_all_wrong_entries_are_refused_at_once() -> None:
    changes = {"ports": [0], "listen_addresses": ["lab"], "fail2ban_bantime": "soon", "extra_options": {"Port": 23}}
    assert {*refused(**changes)} == {"ssh_ports", "ssh_listen_addresses", "ssh_fail2ban_bantime", "ssh_extra_options"}

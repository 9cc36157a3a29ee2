# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import finding, problem
from ansible_collections.rigwright.workstation.plugins.plugin_utils._finding import parse


def test_problem_names_variable_and_remedy() -> None:
    assert problem("ssh_port", "is 0", "set a port") == {
        "ok": False,
        "variable": "ssh_port",
        "problem": "is 0",
        "remedy": "set a port",
    }


def test_finding_has_the_keys_that_the_action_expects() -> None:
    row = finding("ssh.key_login", "fail", "ssh as owner: rc 255", "add a key")
    assert parse(row) == row


def test_finding_that_passes_has_no_remedy() -> None:
    assert finding("ssh.key_login", "pass", "ssh as owner: rc 0", "add a key")["remedy"] == ""

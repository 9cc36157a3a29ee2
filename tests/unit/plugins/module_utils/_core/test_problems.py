# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
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


@pytest.mark.parametrize(
    "value",
    [
        "https_proxy=http://u:hunter2@proxy:1",
        "https://hunter2@git.example.org/x",
        "https://conda.example.org/t/hunter2/main",
        "API_TOKEN=hunter2",
        '"auth": "hunter2"',
        "//nas/share,user=u,password=hunter2,uid=1",
        "Authorization: Bearer hunter2abc",
    ],
)
def test_secret_of_another_file_is_masked_in_a_finding(value: str) -> None:
    evidence = finding("x.overridden", "warn", f"not in force: {value} (/etc/x.conf)", "set the same")["evidence"]
    assert "hunter2" not in evidence and "not in force: " in evidence


@pytest.mark.parametrize(
    "evidence",
    [
        "can become root without a password: ada, bob",
        "PasswordAuthentication=yes, AuthorizedKeysFile=.ssh/authorized_keys",
        "not mounted: /srv/t/data/old, nas:/export",
        "git@github.com and sftp:user@host:/backup",
        "https://example.org/x?y=z: the token ended 2026-11-27",
    ],
)
def test_sentence_without_a_secret_stays(evidence: str) -> None:
    assert finding("x.y", "warn", evidence)["evidence"] == evidence

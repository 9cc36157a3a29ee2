# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets in texts are masked, and what helps to find a problem stays."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.redact import without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://alice:hunter2@mirror.example/debian", "https://***@mirror.example/debian"),
        ("https://u:p/hunter2@h/x", "https://***@h/x"),
        ("https://u:a@hunter2@h", "https://***@h"),
        ("https://u@hunter2@h", "https://***@h"),
        ("https://h/a https://h/b me@h", "https://h/a https://h/b me@h"),
        ("password:  hunter2", "password:  ***"),
        ("pwd=hunter2", "pwd=***"),
        ("curl --password hunter2 x", "curl --password *** x"),
        ("--http-password 'a hunter2' x", "--http-password '***' x"),
        ("--password-file /etc/p --ask-password --verbose", "--password-file /etc/p --ask-password --verbose"),
        ('password="a hunter2" b', 'password="***" b'),
        ('token = "a\\"hunter2" b', 'token = "***" b'),
        ('password: "a hunter2', 'password: "***"'),
        ("password:\nuser: a", "password:\nuser: a"),
        ("https://repo.example/t/ab-123/main", "https://repo.example/t/***/main"),
        (
            "//nas/x /mnt cifs username=alice,password=hunter2,uid=1000 0 0",
            "//nas/x /mnt cifs username=alice,password=***,uid=1000 0 0",
        ),
        ("pass=hunter2", "pass=***"),
        ('SMB_PASSWORD="hunter2"', 'SMB_PASSWORD="***"'),
        ("--token=hunter2;", "--token=***;"),
        ('{"token": "hunter2", "port": 1}', '{"token": "***", "port": 1}'),
        ("auth.token = 'hunter2'", "auth.token = '***'"),
        ("secret_key=hunter2 api-key: hunter2", "secret_key=*** api-key: ***"),
        ("Authorization: Bearer hunter2", "Authorization: Bearer ***"),
        (
            "listen tcp 127.0.0.1:7000: bind: address already in use",
            "listen tcp 127.0.0.1:7000: bind: address already in use",
        ),
        ("/etc/frps/token: no such file", "/etc/frps/token: no such file"),
        ("credentials=/root/nas", "credentials=/root/nas"),
        ("UUID=1 / ext4 errors=remount-ro 0 1", "UUID=1 / ext4 errors=remount-ro 0 1"),
    ],
)
def test_credentials_are_redacted(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_given_secrets_are_masked_whole() -> None:
    assert (
        without_secrets("login hunter2hunter2 hunter2 failed", ["", "hunter2", "hunter2hunter2"])
        == "login *** *** failed"
    )

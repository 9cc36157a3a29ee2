# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets in texts are masked, and what helps to find a problem stays."""

from __future__ import annotations

import string

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.redact import without_secrets
from hypothesis import given
from hypothesis import strategies as st


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


# Where a secret is: {} is the secret.
TEMPLATES = [
    "AWS_SECRET_ACCESS_KEY={}",
    "AWS_SECRET_ACCESS_KEY: {}",
    "access_key: {}",
    "AZURE_ACCOUNT_KEY={}",
    "x-api-key: {}",
    "--pass {}",
    "--db-pass {} --verbose",
    "passphrase {}",
    "the password is {} now",
    "requirepass {}",
    "bind_password {}",
    "mysql -p{} db",
    "mariadb-dump -u wiki -p{} --all-databases",
    "sshpass -p {} ssh host",
    "curl -fsS -u alice:{} http://h/",
    'curl --user "alice:{}" http://h/',
    "smbclient //nas/x -U alice%{}",
    "network psk={} scan",
    'psk="{}"',
    "auth={}",
    '{{"auths": {{"h": {{"auth": "{}"}}}}}}',
    "GH_PAT={}",
    "https://h/x?sig={}&se=1",
    "https://h/x?X-Amz-Signature={}&a=b",
    "Cookie: session={}; theme=dark",
    "Set-Cookie: sid={}",
    "with Bearer {}",
    "login as alice:{}@db.example",
    "postgresql+x://alice:{}@db/x",
    "-----BEGIN OPENSSH " + "PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----",
    "-----BEGIN " + "PRIVATE KEY-----\n{}",
    "password:\n  {}",
    "token: |\n  {}",
    "hf_{}abcdefghij0123456789",
    "ghp_{}abcdefghij0123456789",
]


# What people read to find a problem.
ORDINARY = [
    "Failed password for root from 192.0.2.1 port 51122 ssh2",
    "Failed password for invalid user admin1 from 192.0.2.1 port 22 ssh2",
    "Accepted publickey for alice from 192.0.2.1 port 51122 ssh2: ED25519 SHA256:abcDEF123",
    "pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=192.0.2.1  user=root",
    "password [success=1 default=ignore] pam_unix.so obscure use_authtok yescrypt",
    'FATAL: password authentication failed for user "wiki"',
    "Fatal: wrong password or no key found",
    "Enter passphrase for key '/root/.ssh/id_ed25519'",
    "Authentication token manipulation error",
    "the password expired, and has 8 characters at least",
    "mkdir -p /srv/x1 && ssh -p 2222 backup@nas true",
    "docker run -u 1000:1000 -p 8080:80 debian:12@sha256:0123abcd",
    "mysqldump --port 3306 --single-transaction wiki",
    "curl -u alice --proxy http://proxy:3128 https://h/x?page=2&lang=de",
    "repository sftp:backup1@nas:/srv/x of rest:https://nas:8000/x",
    "git@github.com:org/repo.git, mailto:admin1@example.org",
    "user@1000.service: Main process exited, code=exited, status=1/FAILURE",
    "NVRM: Xid (PCI:0000:41:00): 79, pid=1234, name=python3",
    "pass: 12, warn: 1, fail: 0",
    "cookie: none; compat=1 keyboard=us",
    "/etc/x/api_token: no such file or directory",
    "open /etc/rigwright/backup/home.password: permission denied",
    "hf_transfer is not installed; sk-learn-contrib-0123456789 is",
    "-----BEGIN CERTIFICATE-----",
    "MIIB0123456789abcdef",
    "the bearer of bad news, the secret of success",
    "password-file = see docs",
]


@given(st.sampled_from(TEMPLATES), st.text(string.ascii_letters + string.digits, min_size=8, max_size=40))
def test_a_secret_is_nowhere_to_be_read(template: str, text: str) -> None:
    secret = f"S3{text}"
    shown = without_secrets(f"before\n{template.format(secret)}\nafter")
    assert secret not in shown
    assert shown.startswith("before\n"), "what is around it stays"
    assert without_secrets(shown) == shown


@pytest.mark.parametrize("line", ORDINARY)
def test_an_ordinary_line_stays(line: str) -> None:
    assert without_secrets(line) == line


@given(st.lists(st.sampled_from(ORDINARY), max_size=9))
def test_ordinary_lines_stay_together(lines: list[str]) -> None:
    assert without_secrets("\n".join(lines)) == "\n".join(lines)


@given(st.lists(st.sampled_from(ORDINARY), min_size=1, max_size=3), st.sampled_from(TEMPLATES))
def test_lines_before_a_secret_stay(lines: list[str], template: str) -> None:
    text = "\n".join(lines) + "\n"
    assert without_secrets(text + template.format("S3cretS3cret")).startswith(text)

# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import address as addresses

PASSWORD = "correct horse battery"
REST: Any = {
    "name": "nas",
    "url": "rest:https://nas:8000/ws/",
    "user": "ws@1",
    "user_password": "p:/w",
    "password": PASSWORD,
}


def problems(**entry: object) -> list[str]:
    whole: Any = {"name": "disk", "url": "/backup/ws", "password": PASSWORD, **entry}
    return [row["problem"] for row in addresses.requirements([whole]) if not row["ok"]]


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("/backup/ws", "local"),
        ("local:/backup/ws", "local"),
        ("backup/ws", None),
        ("/backup/../ws", None),
        ("/", None),
        ("sftp:me@nas:/backup", "sftp"),
        ("sftp://me@nas:2222//backup", "sftp"),
        ("sftp:nas", None),
        ("rest:https://nas:8000/ws/", "rest"),
        ("rest:nas:8000", None),
        ("s3:https://s3.example.org/bucket", "s3"),
        ("s3:s3.amazonaws.com/bucket", "s3"),
        ("b2:bucket:path", "other"),
        ("b2:", None),
        ("ftp://nas", None),
        ("rest:https://[::1/", None),
        ("rest:https://[::1]:8000/ws/", "rest"),
        ("rest:https://host:abc/", None),
        ("sftp:x@[fd00::1]:/", None),
        ("sftp://x@[fd00::1]:22//backup", "sftp"),
        ("sftp:-oProxyCommand=x:/y", None),
        ("/srv/a\\b", None),
    ],
)
def test_an_address_is_one_that_restic_takes(url: str, kind: str | None) -> None:
    found = addresses.parse(url)
    assert (found.kind if found else None) == kind


def test_a_rest_user_is_only_in_the_secret_address() -> None:
    assert addresses.full(REST) == "rest:https://ws%401:p%3A%2Fw@nas:8000/ws/"
    shown = json.dumps(addresses.public(REST))
    assert "p%3A" not in shown and "p:/w" not in shown and PASSWORD not in shown


def test_only_secrets_are_files_of_root() -> None:
    sftp: Any = {
        "name": "far",
        "url": "sftp:a@b:/c",
        "password": PASSWORD,
        "ssh_key": "KEY",
        "known_hosts": "b ssh-ed25519 AAAA",
    }
    s3: Any = {
        "name": "s3",
        "url": "s3:https://h/b",
        "password": PASSWORD,
        "env": {"AWS_SECRET_ACCESS_KEY": "x"},
        "ca_certificate": "CA",
    }
    rows: Any = {row["path"]: (row["mode"], row.get("secret", False)) for row in addresses.files([sftp, s3], "/e")}
    assert rows == {
        "/e/far.address": ("0600", True),
        "/e/far.password": ("0600", True),
        "/e/far.ssh_key": ("0600", True),
        "/e/far.known_hosts": ("0644", False),
        "/e/s3.address": ("0600", True),
        "/e/s3.environment": ("0600", True),
        "/e/s3.password": ("0600", True),
        "/e/s3.ca": ("0644", False),
    }


def test_fingerprints_differ_by_password_and_repository() -> None:
    first = addresses.fingerprint("a", PASSWORD)
    assert first == addresses.fingerprint("a", PASSWORD)
    assert len({first, addresses.fingerprint("b", PASSWORD), addresses.fingerprint("a", PASSWORD + "!")}) == 3
    assert addresses.fingerprint("a", "") == ""


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"password": ""}, "has no password for disk"),
        ({"password": "short"}, "less than 12"),
        ({"password": "two\nlines and more"}, "line break"),
        ({"password_file": "/root/x"}, "both a password and"),
        ({"password": "", "password_file": "x"}, "no absolute path"),
        ({"url": "backup"}, "address that restic does not take"),
        ({"name": "Disk"}, "name 'Disk'"),
        ({"user": "me"}, "which only a REST server asks for"),
        ({"url": "rest:https://nas/", "user": "me"}, "without user_password"),
        ({"url": "sftp:a@b:/c"}, "no ssh_key"),
        ({"url": "sftp:a@b:/c", "ssh_key": "k"}, "no known_hosts"),
        ({"url": "rest:https://u:secretpw@nas/x/"}, "a user or a password in the address"),
        ({"url": "rest:https://u@nas/x/"}, "a user or a password in the address"),
        ({"url": "s3:key:secretpw@nas/x"}, "a user or a password in the address"),
        ({"url": "sftp://u:secretpw@nas/x"}, "a user or a password in the address"),
        ({"url": "sftp:u:secretpw@nas:/x"}, "a user or a password in the address"),
        ({"url": "/x\n/y"}, "a url with a line break"),
        ({"password": "", "password_file": "/root/x\nUser=root"}, "a password_file with a line break"),
        ({"password": "", "password_file": "/root/x\\"}, "backslash at an end"),
        ({"append_only": "false"}, "append_only: 'false', which is neither true nor false"),
        ({"init": "no"}, "init: 'no', which is neither"),
    ],
)
def test_an_unusable_repository_is_refused_with_a_reason(entry: dict[str, object], message: str) -> None:
    assert any(message in problem for problem in problems(**entry))
    assert not any(PASSWORD in problem or "secretpw" in problem for problem in problems(**entry))


@pytest.mark.parametrize("url", ["/srv/a:b:c@d", "rclone:remote:x@y", "sftp:me@nas:/a@b:c", "rest:https://nas/a@b/"])
def test_an_at_sign_elsewhere_is_no_user(url: str) -> None:
    assert not addresses.has_secret(url)


def test_all_access_secrets_have_a_fingerprint() -> None:
    found = addresses.public(REST)["access"]
    assert found == addresses.public(REST | {"password": "another long password"})["access"]
    for change in ({"user_password": "x"}, {"env": {"A": "b"}}, {"ca_certificate": "x"}, {"options": ["x"]}):
        assert addresses.public(REST | change)["access"] != found


def test_two_repositories_of_one_name_are_refused() -> None:
    rows = addresses.requirements([REST, REST])
    assert [row["problem"] for row in rows if not row["ok"]] == ["has two repositories of the name nas"]
    assert problems() == []

# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

from ansible_collections.rigwright.workstation.plugins.filter.backup_request import backup_request

ENTRY = {
    "name": "nas",
    "url": "rest:https://nas/ws/",
    "user": "ws",
    "user_password": "of-the-server",
    "password": "correct horse battery",
}


def test_secrets_are_in_the_files_and_nowhere_else() -> None:
    found = backup_request([ENTRY], "/etc/x")
    assert found["requirements"] == []
    secret = {row["path"]: row["content"] for row in found["files"] if row.get("secret")}
    assert secret == {
        "/etc/x/nas.address": "rest:https://ws:of-the-server@nas/ws/\n",
        "/etc/x/nas.password": "correct horse battery\n",
    }
    shown = json.dumps(found["repositories"])
    assert "of-the-server" not in shown and "horse" not in shown


def test_a_repository_without_password_has_no_files() -> None:
    found = backup_request([{"name": "disk", "url": "/backup"}], "/etc/x")
    assert [row["problem"] for row in found["requirements"]] == ["has no password for disk"]
    assert found["files"] == [] and [row["name"] for row in found["repositories"]] == ["disk"]

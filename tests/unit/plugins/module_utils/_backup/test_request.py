# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets apart from a request; those of commands: test_hooks.py."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._backup.request import separate

ENTRY: Any = {
    "name": "nas",
    "url": "rest:https://nas/ws/",
    "user": "ws",
    "user_password": "of-the-server",
    "password": "correct horse battery",
}


def test_secrets_are_in_the_files_and_nowhere_else() -> None:
    request: Any = {"repositories": [ENTRY], "jobs": [], "user": "x"}
    found = separate(request)
    assert found.problems == [] and found.request["user"] == "x"
    secret = {row["path"]: row["content"] for row in found.files if row.get("secret")}
    assert secret == {
        "/etc/rigwright/backup/nas.address": "rest:https://ws:of-the-server@nas/ws/\n",
        "/etc/rigwright/backup/nas.password": "correct horse battery\n",
        "/etc/rigwright/backup/commands.json": "{}\n",
    }
    shown = json.dumps(found.request)
    assert "of-the-server" not in shown and "horse" not in shown


def test_a_repository_without_password_has_no_files() -> None:
    request: Any = {"repositories": [{"name": "disk", "url": "/backup"}], "jobs": []}
    found = separate(request)
    assert [row["problem"] for row in found.problems] == ["has no password for disk"]
    assert found.files == [] and [row["name"] for row in found.request["repositories"]] == ["disk"]

# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of notifications that send a password without encryption (roles/common/vars/main/notify.yml)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NOTIFY = Path(__file__).parents[3] / "roles/common/vars/main/notify.yml"
CLEAR = [
    "mailto://lab:secret@example.org",
    "MailTo://lab:secret@example.org:25?smtp=192.0.2.1",
    "mailto://lab:secret@example.org?mode=insecure",
    "mailto://lab:p%40ss@example.org/?to=a@example.net",
]
COVERED = [
    "mailtos://lab:secret@example.org",
    "mailto://lab:secret@example.org?smtp=mail.example.org&mode=starttls",
    "mailto://lab:secret@example.org?mode=ssl&to=a@example.net",
    "mailto://example.org?smtp=127.0.0.1&from=a@example.org",
    "mailto://lab@example.org",
    "json://lab:secret@example.org",
    "ntfys://lab:secret@ntfy.example.org/topic",
]


def test_passwords_without_encryption_are_counted(run_tasks: Any) -> None:
    addresses = [[url] for url in [*CLEAR, *COVERED]]
    tasks = [
        {"ansible.builtin.include_vars": str(NOTIFY)},
        {
            "ansible.builtin.assert": {"that": ["__common_notify_clear | int == (item[0] in clear) | int"]},
            "vars": {"workstation_notify_urls": "{{ item }}"},
            "loop": addresses,
        },
    ]
    run = run_tasks(tasks, "-e", json.dumps({"clear": CLEAR}))
    assert run.rc == 0, run.output

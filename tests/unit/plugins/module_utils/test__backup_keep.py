# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots and words for restic; what forget, prune and check do to a repository: test__backup_job.py."""

from __future__ import annotations

import json

from ansible_collections.rigwright.workstation.plugins.module_utils import _backup_keep as keeping


def test_snapshots_come_oldest_first() -> None:
    rows = [
        {"id": "b", "time": "2026-02-01T00:00:00Z", "tags": ["x"]},
        {"id": "a", "time": "2026-01-01T00:00:00Z", "hostname": "ws", "tags": None},
    ]
    found = keeping.parse_snapshots(json.dumps(rows))
    assert [(row.id, row.host, row.tags) for row in found] == [("a", "ws", ()), ("b", "", ("x",))]
    assert keeping.parse_snapshots("null") == []


def test_what_is_kept_is_said_by_restics_own_words() -> None:
    assert keeping.keep({"daily": 7, "weekly": 0, "within": "30d"}) == ["--keep-daily", "7", "--keep-within", "30d"]

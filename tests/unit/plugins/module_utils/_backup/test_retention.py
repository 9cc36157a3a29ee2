# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots and words for restic; what forget, prune and check do to a repository: test__backup_job.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import retention as keeping

from tests.unit.support.backup.hosts import Host, restic


def test_snapshots_come_oldest_first() -> None:
    rows = [
        {"id": "b", "time": "2026-02-01T00:00:00Z", "tags": ["x"]},
        {"id": "a", "time": "2026-01-01T00:00:00Z", "hostname": "ws", "tags": None},
    ]
    found = keeping.parse_snapshots(json.dumps(rows))
    assert [(row.id, row.host, row.tags) for row in found] == [("a", "ws", ()), ("b", "", ("x",))]
    assert keeping.parse_snapshots("null") == []


def test_the_retention_becomes_options_of_restic() -> None:
    assert keeping.keep({"daily": 7, "weekly": 0, "within": "30d"}) == ["--keep-daily", "7", "--keep-within", "30d"]


def test_a_gap_longer_than_within_keeps_older_snapshots() -> None:
    days = [0, 1, 2, 400, 401]
    rows = [keeping.Snapshot(str(day), day * 86400.0, "ws", (), ()) for day in days]
    assert [row.id for row in keeping.before_gap({"within": "30d"}, rows)] == ["0", "1", "2"]
    assert [row.id for row in keeping.before_gap({"within": "1y1m", "last": 3}, rows)] == ["0", "1", "2"]
    for retention in ({"within": "2y"}, {"within": "30d", "daily": 7}, {"last": 1}):
        assert keeping.before_gap(retention, rows) == []
    assert keeping.before_gap({"within": "30d"}, []) == []


def test_how_long_within_is() -> None:
    assert keeping.within_s("1y2m3d4h") == ((365 + 2 * 28 + 3) * 24 + 4) * 3600


def test_a_clock_that_ran_ahead_lets_no_snapshot_go(tmp_path: Path) -> None:
    host = Host(tmp_path, restic())
    host.init()
    host.configure(job={"retention": {"within": "30d"}})
    for moment in ("2020-01-01 00:00:00", "2020-01-02 00:00:00"):
        host.ask("backup", "--host", "ws", "--tag", "job:home,part:files", "--time", moment, str(host.source))
    host.do("run")
    result = host.do("forget")
    assert (result["kind"], result["removed"], len(host.snapshots())) == ("gap", 0, 3)
    assert "2 of part:files up to" in result["words"]


@pytest.mark.parametrize(
    "text", ["{", '[{"short_id": "x"}]', '{"message_type": "x"}', '[["x"]]', '[{"id": "x", "time": 3}]']
)
def test_an_unknown_format_of_snapshots_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json's own words among them
        keeping.parse_snapshots(text)

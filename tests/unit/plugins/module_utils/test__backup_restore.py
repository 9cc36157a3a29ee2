# SPDX-License-Identifier: GPL-3.0-or-later
"""Getting files back: the plan, what is refused, and the restore, with the real restic."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils import _backup_restore as restoring
from ansible_collections.rigwright.workstation.plugins.module_utils._backup_config import ConfigError
from ansible_collections.rigwright.workstation.plugins.module_utils._backup_keep import Snapshot

from tests.unit.backup_hosts import EACH_RESTIC, Host, fill, same


def at(text: str, identity: str) -> Snapshot:
    return Snapshot(identity, time.mktime(time.strptime(text, "%Y-%m-%d %H:%M")), "ws", (), ())


SNAPSHOTS = [at("2026-11-01 02:00", "aa11"), at("2026-11-02 02:00", "aa22"), at("2026-11-03 02:00", "bb33")]


@pytest.mark.parametrize(
    ("when", "identity"),
    [
        ("latest", "bb33"),
        ("2026-11-02", "aa22"),
        ("2026-11-02 01:59", "aa11"),
        ("2026-11-02T02:00", "aa22"),
        ("2030-01-01 00:00:00", "bb33"),
        ("aa22", "aa22"),
    ],
)
def test_the_snapshot_is_the_last_one_by_then(when: str, identity: str) -> None:
    assert restoring.choose(SNAPSHOTS, when).id == identity


@pytest.mark.parametrize(
    ("when", "words"), [("2026-10-31", "the first is of 2026-11-01 02:00"), ("yesterday", "neither"), ("aa", "neither")]
)
def test_a_time_with_no_snapshot_is_refused(when: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        restoring.choose(SNAPSHOTS, when)
    with pytest.raises(ConfigError, match="has no snapshot"):
        restoring.choose([], "latest")


@pytest.mark.parametrize("restic", EACH_RESTIC)
def test_files_come_back_and_never_over_what_is_there_unasked(tmp_path: Path, restic: Callable[[], str]) -> None:
    host = Host(tmp_path, restic())
    host.init()
    fill(host.source)
    host.do("run")
    job, opened = host.config.job("home"), host.open()

    plan = restoring.make_plan(
        job,
        opened,
        "latest",
        [str(host.source / "deep"), str(host.source / "odd\nname [x] *?\\ é")],
        str(tmp_path / "to"),
    )
    assert (plan.files, plan.conflicts, plan.unknown) == (2, 0, [])
    assert restoring.objection(plan, overwrite=False) == ""
    assert restoring.carry_out(host.config, plan, opened, overwrite=False) == ""
    back = Path(f"{tmp_path}/to{host.source}")
    assert sorted(path.name for path in back.iterdir()) == ["deep", "odd\nname [x] *?\\ é"]
    assert same(host.source / "deep", back / "deep") == []

    (host.source / "plain").write_text("newer")
    plan = restoring.make_plan(job, opened, "latest", [str(host.source / "plain")], "/")
    assert plan.conflicting == [str(host.source / "plain")]
    assert "1 files are there already" in restoring.objection(plan, overwrite=False)
    assert restoring.objection(plan, overwrite=True) == ""
    assert restoring.carry_out(host.config, plan, opened, overwrite=True) == ""
    assert (host.source / "plain").stat().st_size == 200_000

    plan = restoring.make_plan(job, opened, "latest", ["/no/such"], "/")
    assert "nothing at /no/such" in restoring.objection(plan, overwrite=True)
    assert json.dumps(plan.__dict__)

# SPDX-License-Identifier: GPL-3.0-or-later
"""The drill with this machine's restic; with others, and after a flipped byte: test__backup_job.py."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import cli as program

from tests.unit.support.backup.hosts import Host, flip_a_byte, restic


def test_a_drill_before_the_first_backup_reports_nothing(tmp_path: Path) -> None:
    host = Host(tmp_path, restic())
    host.init()
    result = host.do("drill")
    assert (result["kind"], result["exit_code"]) == ("nothing", 1)


def test_a_difference_fails_the_drill_and_names_the_file(tmp_path: Path) -> None:
    host = Host(tmp_path, restic())
    host.init()
    for name in ("one", "two"):
        (host.source / name).write_text(name)
    host.do("run")
    path = tmp_path / "state/sample-home.json"
    sample = json.loads(path.read_text())
    sample["files"][str(host.source / "one")].update(sha256="0" * 64, uid=77)
    path.write_text(json.dumps(sample))
    result = host.do("drill")
    assert (result["kind"], result["exit_code"]) == ("lost", 1)
    assert result["lost"] == [
        f"{host.source}/one has another content",
        f"{host.source}/one has another owner: 0, not 77",
    ]
    assert not (tmp_path / "cache/drill-home").exists()


def test_dumps_are_read_and_compared_too(tmp_path: Path) -> None:
    host = Host(tmp_path, restic())
    host.init()
    host.configure(
        job={"paths": [], "dumps": [{"name": "wiki", "command": ["echo", "all of it"], "filename": "wiki.sql"}]}
    )
    assert host.do("drill")["kind"] == "nothing"
    host.do("run")
    result = host.do("drill")
    assert (result["kind"], result["dumps"]) == ("ok", 1)

    broken = {"name": "wiki", "command": ["false"]}
    host.configure(job={"dumps": [broken]})
    assert host.do("run")["kind"] == "dump"
    assert host.do("drill")["dumps"] == 1, "the last good one is still there"

    path = tmp_path / "state/dumps-home.json"
    dumps = json.loads(path.read_text())
    dumps["wiki"]["sha256"] = "0" * 64
    path.write_text(json.dumps(dumps))
    result = host.do("drill")
    assert (result["kind"], result["lost"]) == ("lost", ["the dump wiki has another content"])


def test_a_drill_path_that_is_not_in_the_backup_fails(tmp_path: Path) -> None:
    host = Host(tmp_path, restic())
    host.init()
    (host.source / "there").write_text("x")
    # All below a directory would be restored.
    (host.source / "directory").mkdir()
    (host.source / "directory/below").write_text("x")
    host.configure(drill_paths=[*(str(host.source / name) for name in ("there", "gone", "directory")), "/another/job"])
    host.do("run")
    result = host.do("drill")
    assert (result["kind"], result["lost"]) == (
        "lost",
        [
            f"{host.source}/gone is in backup_drill_paths and not in the backup",
            f"{host.source}/directory is in backup_drill_paths and a directory: name files",
        ],
    )


def test_dumps_are_read_without_files_to_compare(tmp_path: Path) -> None:
    host = Host(tmp_path, restic())
    host.init()
    (host.source / "empty").mkdir()
    host.configure(job={"dumps": [{"name": "wiki", "command": ["echo", "all of it"]}]})
    host.do("run")
    result = host.do("drill")
    assert (result["kind"], result["files"], result["dumps"]) == ("nothing", 0, 1)
    assert "no file of the last backup could be compared" in result["words"]

    path = tmp_path / "state/dumps-home.json"
    dumps = json.loads(path.read_text())
    dumps["wiki"]["sha256"] = "0" * 64
    path.write_text(json.dumps(dumps))
    assert host.do("drill")["lost"] == ["the dump wiki has another content"]


def test_files_of_a_killed_drill_are_not_compared(tmp_path: Path) -> None:
    host = Host(tmp_path, restic())
    host.init()
    (host.source / "one").write_bytes(os.urandom(1 << 20))
    host.configure(drill_paths=[str(host.source / "one")])
    host.do("run")
    leftover = Path(f"{tmp_path}/cache/drill-home{host.source}")
    leftover.parent.mkdir(parents=True)
    shutil.copytree(host.source, leftover)
    for pack in (tmp_path / "repository/data").rglob("*"):
        if pack.is_file() and pack.stat().st_size > 1 << 19:
            flip_a_byte(pack)
    assert host.do("drill")["kind"] == "damaged"
    assert not (tmp_path / "cache/drill-home").exists()


def test_the_end_of_a_drill_removes_files_of_a_killed_one(tmp_path: Path) -> None:
    host = Host(tmp_path, restic())
    leftover = tmp_path / "cache/drill-home/etc/shadow"
    leftover.parent.mkdir(parents=True)
    leftover.write_text("root's")
    program.step(host.config, host.place, "end", "drill", "home")
    assert not (tmp_path / "cache/drill-home").exists()


def test_dump_that_never_succeeded_is_not_proven(tmp_path: Path) -> None:
    host = Host(tmp_path, restic())
    host.init()
    (host.source / "file").write_text("x")
    host.configure(job={"dumps": [{"name": "good", "command": ["echo", "x"]}, {"name": "wiki", "command": ["false"]}]})
    host.do("run")
    result = host.do("drill")
    assert (result["kind"], result["words"]) == ("nothing", "there is no good dump of wiki to compare with")


def test_dump_that_was_added_after_the_last_run_fails_no_drill(tmp_path: Path) -> None:
    host = Host(tmp_path, restic())
    host.init()
    (host.source / "file").write_text("x")
    host.configure(job={"dumps": [{"name": "good", "command": ["echo", "x"]}]})
    host.do("run")
    host.configure(job={"dumps": [*host.job["dumps"], {"name": "wiki", "command": ["echo", "y"]}]})
    result = host.do("drill")
    assert (result["kind"], result["files"], result["dumps"]) == ("ok", 1, 1)
    assert result["words"] == "not compared, since no run has made it yet: the dump wiki"
    host.do("run")
    assert (host.do("drill")["words"], host.state("drill")["dumps"]) == ("", 2)


def test_dump_that_has_failed_is_not_proven_by_a_later_change(tmp_path: Path) -> None:
    host = Host(tmp_path, restic())
    host.init()
    (host.source / "file").write_text("x")
    host.configure(job={"dumps": [{"name": "wiki", "command": ["false"]}]})
    host.do("run")
    host.configure(retry_lock_s=1)
    assert host.do("drill")["kind"] == "nothing"


@pytest.mark.parametrize("ended_early", [{"pre": [{"command": ["false"]}]}, {"paths": ["/nowhere"]}])
def test_dump_that_a_run_did_not_reach_is_not_proven(tmp_path: Path, ended_early: dict[str, Any]) -> None:
    host = Host(tmp_path, restic())
    host.init()
    (host.source / "file").write_text("x")
    host.configure(job={"dumps": [{"name": "wiki", "command": ["false"]}]})
    host.do("run")
    host.configure(job=ended_early)
    assert host.do("run")["kind"] != "ok"
    host.configure(retry_lock_s=1)
    result = host.do("drill")
    assert (result["kind"], result["words"]) == ("nothing", "there is no good dump of wiki to compare with")


def test_state_without_a_list_of_dumps_had_them_all(tmp_path: Path) -> None:
    host = Host(tmp_path, restic())
    host.init()
    (host.source / "file").write_text("x")
    host.configure(job={"dumps": [{"name": "wiki", "command": ["false"]}]})
    state = host.do("run")
    del state["dumps_of_job"], state["dumps"]
    host.write("state/run-home.json", json.dumps(state))
    host.configure(retry_lock_s=1)
    assert host.do("drill")["kind"] == "nothing"

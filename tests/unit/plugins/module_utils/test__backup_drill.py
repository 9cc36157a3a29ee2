# SPDX-License-Identifier: GPL-3.0-or-later
"""The drill with this machine's restic; with others, and after a flipped byte: test__backup_job.py."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.unit.backup_hosts import Host, restic


def test_a_drill_before_the_first_backup_has_nothing_to_compare_and_says_so(tmp_path: Path) -> None:
    host = Host(tmp_path, restic())
    host.init()
    told = host.do("drill")
    assert (told["kind"], told["exit_code"]) == ("nothing", 1)


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
    told = host.do("drill")
    assert (told["kind"], told["exit_code"]) == ("lost", 1)
    assert told["lost"] == [f"{host.source}/one has another content", f"{host.source}/one has another owner: 0, not 77"]
    assert os.listdir(tmp_path / "cache/drill-home") == []


def test_dumps_are_read_and_compared_too(tmp_path: Path) -> None:
    host = Host(tmp_path, restic())
    host.init()
    host.configure(
        job={"paths": [], "dumps": [{"name": "wiki", "command": ["echo", "all of it"], "filename": "wiki.sql"}]}
    )
    assert host.do("drill")["kind"] == "nothing"
    host.do("run")
    told = host.do("drill")
    assert (told["kind"], told["dumps"]) == ("ok", 1)

    broken = {"name": "wiki", "command": ["false"]}
    host.configure(job={"dumps": [broken]})
    assert host.do("run")["kind"] == "dump"
    assert host.do("drill")["dumps"] == 1, "the last good one is still there"

    path = tmp_path / "state/dumps-home.json"
    known = json.loads(path.read_text())
    known["wiki"]["sha256"] = "0" * 64
    path.write_text(json.dumps(known))
    told = host.do("drill")
    assert (told["kind"], told["lost"]) == ("lost", ["the dump wiki has another content"])


def test_a_file_that_is_to_be_drilled_and_is_not_in_the_backup_fails_the_drill(tmp_path: Path) -> None:
    host = Host(tmp_path, restic())
    host.init()
    (host.source / "there").write_text("x")
    host.configure(drill_paths=[str(host.source / "there"), str(host.source / "gone"), "/another/job"])
    host.do("run")
    told = host.do("drill")
    assert (told["kind"], told["lost"]) == (
        "lost",
        [f"{host.source}/gone is in backup_drill_paths and not in the backup"],
    )

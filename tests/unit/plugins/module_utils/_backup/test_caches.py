# SPDX-License-Identifier: GPL-3.0-or-later
"""What a tag of caches leaves out, and what it does not. With the real restic: what a path of a job has is stored."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import caches
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Job

from tests.unit.support.backup.hosts import Host, restic

TAG = caches.SIGNATURE.decode() + "\n# made by a program\n"


def tag(folder: Path, text: str = TAG) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / caches.TAG).write_text(text)


def job(*paths: Path, **values: Any) -> Job:
    return Job("home", "disk", "ws", paths=[str(path) for path in paths], **values)


def test_tagged_directory_is_excluded_with_its_tag_kept(tmp_path: Path) -> None:
    tag(tmp_path / "proj/.ruff_cache")
    folder = f"{tmp_path}/proj/.ruff_cache"
    assert caches.patterns(job(tmp_path)) == [f"{folder}/*", f"!{folder}/CACHEDIR.TAG"]


def test_path_of_a_job_is_stored_whatever_is_in_it(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "keep"):
        tag(folder)
    assert caches.patterns(job(tmp_path / "keep")) == []
    assert f"!{tmp_path}/keep/inner" in caches.patterns(job(tmp_path, tmp_path / "keep/inner"))


def test_environment_is_stored_and_caches_in_it_are_not(tmp_path: Path) -> None:
    tag(tmp_path / ".venv")
    (tmp_path / ".venv/pyvenv.cfg").touch()
    tag(tmp_path / ".venv/lib/cache")
    assert caches.patterns(job(tmp_path))[0] == f"{tmp_path}/.venv/lib/cache/*"


@pytest.mark.parametrize("text", ["", "Signature: 8a477f597d28d172789f06886806bc5X"])
def test_other_file_of_that_name_is_no_tag(tmp_path: Path, text: str) -> None:
    tag(tmp_path / "a", text)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / caches.TAG).symlink_to("/dev/zero")
    assert caches.patterns(job(tmp_path)) == []


def test_excluded_and_other_file_systems_are_not_walked(tmp_path: Path) -> None:
    for name in (".cache", "disk", "miniconda3/pkgs", "tmp/x"):
        tag(tmp_path / name)
    excludes = [".cache", "miniconda3/pkgs", f"{tmp_path}/tmp/*"]
    assert caches.patterns(job(tmp_path, excludes=excludes), [f"{tmp_path}/disk"]) == []


@pytest.mark.parametrize("one_file_system", [True, False])
def test_nested_subvolume_is_walked_as_restic_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_file_system: bool
) -> None:
    """Snapshots of snapper are no mounts. Their tags would use up the number of patterns."""
    snapshot = tmp_path / ".snapshots/1/snapshot"
    for folder in (snapshot / "home/.cache", snapshot / "named/.cache", tmp_path / "own"):
        tag(folder)
    real_stat = os.stat

    def stat(path: Any, **values: Any) -> os.stat_result:
        found = real_stat(path, **values)
        inside = str(path).startswith(str(snapshot))
        return os.stat_result((*found[:2], found.st_dev + inside, *found[3:10]))

    monkeypatch.setattr(os, "stat", stat)
    chosen = job(tmp_path, snapshot / "named", one_file_system=one_file_system)
    own = {f"{tmp_path}/own", f"{snapshot}/named/.cache"}
    assert {*caches.tagged(chosen)} == (own if one_file_system else {*own, f"{snapshot}/home/.cache"})


def test_names_of_users_make_no_pattern_of_their_own(tmp_path: Path) -> None:
    """A name with a line break could exclude the files of another user."""
    tag(tmp_path / "x\n" / "home" / "alice")
    tag(tmp_path / "$HOME [a] *")
    rows = caches.as_file(caches.patterns(job(tmp_path))).splitlines()
    assert rows[0] == f"{tmp_path}/$$HOME \\[a] \\*/*"
    assert all(row.lstrip("!").startswith(f"{tmp_path}/$$HOME") for row in rows)


def test_number_of_patterns_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "MOST", 3)
    for number in range(5):
        tag(tmp_path / str(number))
    assert len(caches.patterns(job(tmp_path))) == 6


def test_restic_stores_a_tagged_path_and_no_tagged_cache(tmp_path: Path) -> None:
    host = Host(tmp_path, restic())
    host.init()
    for name in (".", "proj/.venv", "proj/$x [y]"):
        tag(host.source / name)
    for name in ("a", "proj/.venv/pyvenv.cfg", "proj/.venv/b", "proj/$x [y]/gone"):
        (host.source / name).write_text("x")
    assert host.do("run")["kind"] == "ok"
    found = host.restored("latest")
    assert sorted(path.name for path in found.rglob("*") if path.is_file() and path.name != caches.TAG) == [
        "a",
        "b",
        "pyvenv.cfg",
    ]
    assert len(list(found.rglob(caches.TAG))) == 3


def test_run_that_stored_nothing_of_a_path_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(tmp_path, restic())
    host.init()
    (host.source / "file").write_text("x")
    monkeypatch.setattr(caches, "patterns", lambda _job, _mounted: [f"{host.source}/*"])
    state = host.do("run")
    assert (state["kind"], state["words"]) == ("empty", f"nothing of {host.source} is in the snapshot")


def test_empty_directory_is_no_failure(tmp_path: Path) -> None:
    host = Host(tmp_path, restic())
    host.init()
    assert host.do("run")["kind"] == "ok"

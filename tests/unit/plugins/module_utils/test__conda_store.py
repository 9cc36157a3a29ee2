# SPDX-License-Identifier: GPL-3.0-or-later
"""What lies on the disk and is told of it. Generations that are really made: ../modules/test_conda_environment.py."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils import _conda_store
from ansible_collections.rigwright.workstation.plugins.module_utils._conda_plan import (
    CondaError,
    Package,
    Receipt,
    Wanted,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._conda_store import Store, processes_in, read_files

SPEC: dict[str, Any] = {"packages": ["a"], "channels": ["c"], "channel_alias": "", "cuda": "", "lock": "", "pip": []}
WANTED = Wanted("e", SPEC)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with one complete generation, linked."""
    store = Store(str(tmp_path / "conda"), lambda _command: (0, "", ""))
    prefix = Path(store.place("e", 1))
    (prefix / "share").mkdir(parents=True)
    (prefix / "share/a").write_text("a\n")
    (prefix / "conda-meta").mkdir()
    row = {"_path": "share/a", "path_type": "hardlink", "sha256": hashlib.sha256(b"a\n").hexdigest()}
    (prefix / "conda-meta/a-1-0.json").write_text(json.dumps({"name": "a", "paths_data": {"paths": [row]}}))
    Path(f"{prefix}.files.json").write_text(json.dumps(read_files(str(prefix))))
    records = _conda_store.read_records(str(prefix))
    store.write_receipt("e", 1, Receipt(SPEC, True, {"a": Package("1", "0")}, records))
    store.switch("e", 1)
    return store


def test_what_is_there_is_read(store):
    environment = store.read(WANTED)
    assert environment.in_use == 1 and environment.current.intact
    assert store.names() == ["e"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path: path.write_text("longer\n"), ["share/a of a was changed"]),
        (lambda path: path.write_text("b\n"), ["share/a of a was changed"]),
        (lambda path: (path.unlink(), path.symlink_to("a ")), ["share/a of a was changed"]),
        (lambda path: os.utime(path, ns=(1, 1)), []),
        (lambda path: path.unlink(), ["share/a of a was removed"]),
        (lambda path: path.with_name("notes").touch(), []),
    ],
)
def test_what_became_of_files_is_told(store, change, words):
    change(Path(store.place("e", 1), "share/a"))
    assert store.read(WANTED).current.drift == words


def test_of_many_files_some_are_named(store):
    prefix = Path(store.place("e", 1))
    for number in range(50):
        (prefix / f"share/{number}").touch()
    Path(f"{prefix}.files.json").write_text(json.dumps(read_files(str(prefix))))
    subprocess.run(("rm", "-r", prefix / "share"), check=True)
    drift = store.read(WANTED).current.drift
    assert len(drift) == _conda_store.MANY + 1 and drift[-1] == "31 more files were changed or removed"


def test_files_of_a_generation_that_cannot_come_into_use_are_not_looked_at(store):
    Path(store.place("e", 1), "share/a").unlink()
    store.write_receipt("e", 2, Receipt({**SPEC, "packages": ["b"]}, complete=True))
    os.makedirs(store.place("e", 2))
    store.switch("e", 2)
    assert store.read(Wanted("e", {**SPEC, "packages": ["b"]})).generations[1].changed == []
    assert store.read(WANTED).generations[1].changed == ["share/a of a was removed"]
    assert store.read(Wanted("e", {**SPEC, "packages": ["b"]}, generation=1)).generations[1].changed != []


def test_compiled_files_records_and_distributions_are_looked_at_otherwise(tmp_path):
    for path in ("lib/__pycache__/a.pyc", "conda-meta/a.json", "a-1.dist-info/RECORD", "lib/a.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "lib64").symlink_to("lib")
    (tmp_path / "broken").symlink_to("nowhere")
    assert sorted(read_files(str(tmp_path))) == ["broken", "lib/a.py", "lib64"]


def test_a_receipt_that_cannot_be_read_is_named(store):
    path = Path(f"{store.place('e', 1)}.json")
    path.write_text("{")
    with pytest.raises(CondaError, match=f"{path} cannot be read"):
        store.read(WANTED)


def test_discarding_leaves_nothing(store):
    store.unlink("e")
    store.discard("e", 1)
    store.tidy("e")
    store.prune_cache()
    assert not os.path.exists(store.root)


def test_who_runs_from_a_prefix_is_found(tmp_path):
    (tmp_path / "sleep").symlink_to("/bin/sleep")
    with subprocess.Popen((tmp_path / "sleep", "60")) as running:
        assert processes_in(str(tmp_path)) == [running.pid]
        running.kill()
    assert processes_in(str(tmp_path)) == []

# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of generations on a disk. Generations that are really installed: ../../modules/test_conda_environment.py."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.plan import (
    CondaError,
    Package,
    Receipt,
    Wanted,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.prefix import MANY, read_files, read_records
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.store import Store

NOBODY = 65534
SPEC: dict[str, Any] = {"packages": ["a"], "channels": ["c"], "channel_alias": "", "cuda": "", "lock": "", "pip": []}
WANTED = Wanted("e", SPEC)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store with one complete generation, which is linked."""
    store = Store(str(tmp_path / "conda"), lambda _command: (0, "", ""))
    prefix = Path(store.place("e", 1))
    (prefix / "share").mkdir(parents=True)
    (prefix / "share/a").write_text("a\n")
    (prefix / "conda-meta").mkdir()
    row = {"_path": "share/a", "path_type": "hardlink", "sha256": hashlib.sha256(b"a\n").hexdigest()}
    (prefix / "conda-meta/a-1-0.json").write_text(json.dumps({"name": "a", "paths_data": {"paths": [row]}}))
    Path(f"{prefix}.files.json").write_text(json.dumps(read_files(str(prefix))))
    Path(f"{prefix}.lock").write_text("a lock\n")
    write_receipt(store)
    store.switch("e", 1)
    return store


def write_receipt(store: Store) -> None:
    """Write a receipt of the present content."""
    records = read_records(store.place("e", 1))
    packages = {"a": Package("1", "0")}
    store.write_receipt("e", 1, Receipt(SPEC, True, packages, records, beside=store.read_beside("e", 1)))


def test_complete_generation_is_read(store):
    environment = store.read(WANTED)
    assert environment.in_use == 1 and environment.current.intact
    assert store.names() == ["e"]


@pytest.mark.parametrize(
    ("change", "drift"),
    [
        (lambda path: path.write_text("longer\n"), ["share/a of a was changed"]),
        (lambda path: path.write_text("b\n"), ["share/a of a was changed"]),
        (lambda path: (path.unlink(), path.symlink_to("a ")), ["share/a of a was changed"]),
        (lambda path: os.utime(path, ns=(1, 1)), []),
        (lambda path: path.unlink(), ["share/a of a was removed"]),
        (lambda path: path.with_name("notes").touch(), []),
        (lambda path: path.chmod(0o646), ["share/a of a may be written by others"]),
        (lambda path: path.chmod(0o664), ["share/a of a may be written by others"]),
        (lambda path: path.chmod(0o600), ["share/a of a has another mode or owner"]),
        (lambda path: path.parent.chmod(0o777), ["share may be written by others"]),
        (lambda path: path.parent.chmod(0o700), ["share has another mode or owner"]),
    ],
)
def test_changed_files_are_reported(store, change, drift):
    change(Path(store.place("e", 1), "share/a"))
    assert store.read(WANTED).current.drift == drift


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
def test_files_of_another_owner_are_reported_as_writable(store):
    prefix = Path(store.place("e", 1))
    (prefix / "link").symlink_to("share/a")
    Path(f"{prefix}.files.json").write_text(json.dumps(read_files(str(prefix))))
    write_receipt(store)
    for path in (prefix, prefix / "share/a", prefix / "link"):
        os.chown(path, NOBODY, -1, follow_symlinks=False)
    assert store.read(WANTED).current.drift == [
        f"{prefix} may be written by others",
        "link has another mode or owner",
        "share/a of a may be written by others",
    ]


def test_archives_of_changed_files_are_spoiled(store):
    assert store.read(WANTED).spoiled == set()
    Path(store.place("e", 1), "share/a").chmod(0o666)
    assert store.read(WANTED).spoiled == {"a-1-0"}


@pytest.mark.parametrize(
    ("ending", "has_lock", "subject"),
    [(".files.json", True, "1.files.json was"), (".lock", False, "1.lock was"), (".pip.txt", False, "1.pip.txt was")],
)
def test_changed_lock_or_file_list_breaks_a_generation(store, ending, has_lock, subject):
    path = Path(store.place("e", 1) + ending)
    path.write_text("[")
    write_receipt(store)
    path.write_text("{")
    generation = store.read(WANTED).current
    assert (generation.intact, generation.has_lock, generation.drift) == (False, has_lock, [f"{subject} changed"])
    path.unlink()
    assert store.read(WANTED).current.drift == [f"{subject} removed"]


def test_long_list_of_changed_files_is_cut(store):
    prefix = Path(store.place("e", 1))
    for number in range(50):
        (prefix / f"share/{number}").touch()
    Path(f"{prefix}.files.json").write_text(json.dumps(read_files(str(prefix))))
    write_receipt(store)
    subprocess.run(("rm", "-r", prefix / "share"), check=True)
    drift = store.read(WANTED).current.drift
    assert len(drift) == MANY + 1 and drift[-1] == "31 more files are not as they were installed"


def test_files_of_unusable_generations_are_not_read(store):
    Path(store.place("e", 1), "share/a").unlink()
    store.write_receipt("e", 2, Receipt({**SPEC, "packages": ["b"]}, complete=True))
    os.makedirs(store.place("e", 2))
    Path(store.place("e", 2) + ".files.json").write_text("{}")
    store.switch("e", 2)
    assert store.read(Wanted("e", {**SPEC, "packages": ["b"]})).generations[1].changed == []
    assert store.read(WANTED).generations[1].changed == ["share/a of a was removed"]
    assert store.read(Wanted("e", {**SPEC, "packages": ["b"]}, generation=1)).generations[1].changed != []


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


def test_compiling_runs_no_code_of_packages(tmp_path: Path) -> None:
    prefix, mark = tmp_path / "prefix", tmp_path / "ran"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", prefix], check=True)
    (place,) = (prefix / "lib").glob("python*/site-packages")
    (place / "a.pth").write_text(f"import os; os.mkdir({str(mark)!r})\n")
    (place / "b.py").write_text("")

    def run(command: list[str]) -> tuple[int, str, str]:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    Store(str(tmp_path), run)._compile(str(prefix))
    assert list((place / "__pycache__").glob("b.*.pyc"))
    assert not mark.exists()

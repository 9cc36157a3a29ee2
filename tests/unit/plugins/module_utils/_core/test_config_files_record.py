# SPDX-License-Identifier: GPL-3.0-or-later
"""A damaged record of a set is refused with its path and a remedy, and stops no other set."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import config_files, config_files_boot
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import (
    State,
    Store,
    Transaction,
    Wanted,
    sets_in_place,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_state import STORE
from ansible_collections.rigwright.workstation.plugins.module_utils._core.record import Damaged

from tests.unit.support.damage import DAMAGE

FOREIGN = {
    "other keys": b'{"x": 1}',
    "an entry without keys": b'{"transaction": "1", "staged": true, "paths": {"/etc/a": {}}, "steps": [{}]}',
    "a boolean for a mode": b'{"transaction": "1", "staged": true, "paths": {"/etc/a": {"kind": "file", "mode": true, "uid": 0, "gid": 0,'
    b' "mtime_ns": 1, "written": null, "secret": false}}, "steps": [7]}',
}
KINDS = [*DAMAGE, *FOREIGN]


def damaged(kind: str, good: bytes) -> bytes:
    return FOREIGN[kind] if kind in FOREIGN else DAMAGE[kind](good)


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    return tmp_path / "etc"


def store(tmp_path: Path, name: str) -> Store:
    return Store(name, f"{tmp_path}{STORE}")


def write(store: Store, path: Path, text: str, ends: bool = True) -> None:
    path.touch()
    found = path.stat()
    state = State("file", text.encode(), 0o644, found.st_uid, found.st_gid)
    transaction = Transaction(store, [Wanted(str(path), state)])
    transaction.stage()
    transaction.commit()
    if ends:
        transaction.finish()


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_manifest_is_refused_for_its_set_alone(tmp_path: Path, etc: Path, kind: str) -> None:
    (etc / "a").write_text("original\n")
    first, second = store(tmp_path, "first"), store(tmp_path, "second")
    write(first, etc / "a", "1\n")
    manifest = Path(first.manifest)
    manifest.write_bytes(damaged(kind, manifest.read_bytes()))
    with pytest.raises(Damaged, match="restore it from a backup, or move .*first away") as refused:
        write(first, etc / "a", "2\n")
    assert str(manifest) in str(refused.value)
    write(second, etc / "b", "2\n")
    assert (etc / "a").read_text() + (etc / "b").read_text() == "1\n2\n"
    assert sets_in_place(first.root) == ["first", "second"]


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_journal_stops_no_recovery_of_others(
    tmp_path: Path, etc: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    monkeypatch.setattr(config_files_boot, "reload_units", lambda: True)
    for name in "ab":
        (etc / name).write_text("original\n")
    first, second = store(tmp_path, "a"), store(tmp_path, "b")
    write(first, etc / "a", "1\n", ends=False)
    write(second, etc / "b", "1\n", ends=False)
    journal = Path(first.journal)
    journal.write_bytes(damaged(kind, journal.read_bytes()))
    assert config_files_boot.main(str(tmp_path)) == 1
    assert (etc / "b").read_text() == "original\n"
    assert f"{journal} is damaged" in capsys.readouterr().out
    with pytest.raises(Damaged, match="compare the files"):
        first.recover()
    journal.unlink()
    assert config_files_boot.main(str(tmp_path)) == 0


@pytest.mark.parametrize("content", [b"", b"orig", None, b"another one\n"])
def test_original_that_is_not_what_was_kept_is_not_restored(tmp_path: Path, etc: Path, content: bytes | None) -> None:
    (etc / "a").write_text("original\n")
    kept = store(tmp_path, "a")
    write(kept, etc / "a", "1\n")
    original = Path(kept._blob(str(etc / "a")))
    if content is None:
        original.unlink()
    else:
        original.write_bytes(content)
    with pytest.raises(Damaged, match="originals"):
        Transaction(kept, [])
    assert (etc / "a").read_text() == "1\n"


def test_remedy_for_a_lost_original_works(tmp_path: Path, etc: Path) -> None:
    (etc / "a").write_text("original\n")
    kept = store(tmp_path, "a")
    write(kept, etc / "a", "1\n")
    Path(kept._blob(str(etc / "a"))).write_bytes(b"as it is to be\n")
    manifest = Path(kept.manifest)
    manifest.write_text(manifest.read_text().replace('"digest"', '"former"'))
    transaction = Transaction(kept, [])
    transaction.stage()
    transaction.commit()
    transaction.finish()
    assert (etc / "a").read_text() == "as it is to be\n"


def test_original_of_an_earlier_release_has_no_digest(
    tmp_path: Path, etc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (etc / "a").write_text("original\n")
    kept = store(tmp_path, "a")
    with monkeypatch.context() as patch:
        patch.setattr(config_files, "measured", lambda _content: {})
        write(kept, etc / "a", "1\n")
    assert kept.load()[str(etc / "a")].original.content == b"original\n"

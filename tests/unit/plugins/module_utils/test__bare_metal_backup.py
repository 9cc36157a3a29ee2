# SPDX-License-Identifier: GPL-3.0-or-later
"""The real restic: what was backed up is found and restored, and secrets are in no command."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils import _bare_metal_backup as backups
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal_backup import Backup, Failed

from tests.unit.backup_hosts import EACH_RESTIC, PASSWORD


@pytest.fixture(params=EACH_RESTIC)
def repository(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A repository with a manifest and a directory, of the host ws1."""
    monkeypatch.setattr(backups, "MANIFEST", str(tmp_path / "source/manifest.json"))
    (tmp_path / "source/data").mkdir(parents=True)
    (tmp_path / "source/manifest.json").write_text('{"host": "ws1"}')
    (tmp_path / "source/data/set").write_text("can be had again")
    program = request.param()
    environment = {**os.environ, "RESTIC_REPOSITORY": str(tmp_path / "repository"), "RESTIC_PASSWORD": PASSWORD}
    for words in (["init"], ["backup", "--host", "ws1", str(tmp_path / "source")]):
        subprocess.run([program, "--no-cache", *words], env=environment, check=True, capture_output=True)
    return {"program": program, "entry": {"name": "nas", "url": str(tmp_path / "repository")}}


def reach(repository: dict[str, Any], tmp_path: Path, password: str = PASSWORD) -> Backup:
    return Backup({**repository["entry"], "password": password}, repository["program"], str(tmp_path / "work"))


def test_the_manifest_is_found_and_files_are_restored_without_what_is_excluded(
    repository: dict[str, Any], tmp_path: Path
) -> None:
    backup = reach(repository, tmp_path)
    assert backup.manifest("latest", ["--host=ws1"]) == {"host": "ws1"}
    for _twice in range(2):
        backup.restore("latest", ["--host=ws1"], str(tmp_path / "target"), [str(tmp_path / "source/data")])
    restored = Path(f"{tmp_path}/target{tmp_path}/source")
    assert json.loads((restored / "manifest.json").read_text()) == {"host": "ws1"}
    assert list((restored / "data").iterdir()) == []


def test_a_wrong_password_is_told(repository: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(Failed, match="wrong password"):
        reach(repository, tmp_path, "not the password").manifest("latest", [])


def test_secrets_are_in_no_command_and_root_alone_reads_their_files(repository: dict[str, Any], tmp_path: Path) -> None:
    entry = {"url": "rest:https://nas:8000/ws1/", "user": "ws1", "user_password": "hunter2", "env": {"KEY": "hunter3"}}
    backup = Backup(
        {"name": "nas", "password": "hunter4", **entry}, repository["program"], work := str(tmp_path / "work")
    )
    assert "hunter" not in " ".join(backup.restic.command("snapshots"))
    assert backup.restic.environment()["KEY"] == "hunter3"
    assert (tmp_path / "work/secrets").stat().st_mode & 0o777 == 0o700
    assert Path(work, "secrets/nas.address").read_text() == "rest:https://ws1:hunter2@nas:8000/ws1/\n"


def test_what_is_mounted_read_only_takes_no_lock(
    repository: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    backup = reach(repository, tmp_path)
    assert backup.lock == ["--no-lock"]
    assert backup.manifest("latest", []) == {"host": "ws1"}


def test_without_a_password_or_without_restic_nothing_is_asked(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="has no password"):
        Backup({"name": "nas", "url": "/mnt"}, work=str(tmp_path))
    with pytest.raises(Failed, match="install it in the live system"):
        Backup({"name": "nas", "url": "/mnt", "password": "x"}, "/no/such/restic", str(tmp_path))
    assert list(tmp_path.iterdir()) == []

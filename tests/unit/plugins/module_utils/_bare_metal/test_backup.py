# SPDX-License-Identifier: GPL-3.0-or-later
"""The real restic: what was backed up is found and restored, and secrets are in no command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic_outcome import Done
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal import backup as backups
from ansible_collections.rigwright.workstation.plugins.module_utils._bare_metal.backup import Backup, Failed

from tests.unit.support.backup.hosts import EACH_RESTIC, PASSWORD, empty_repository


@pytest.fixture(params=EACH_RESTIC)
def repository(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return a repository with a manifest and a directory, of the host ws1."""
    monkeypatch.setattr(backups, "MANIFEST", str(tmp_path / "source/manifest.json"))
    (tmp_path / "source/data").mkdir(parents=True)
    (tmp_path / "source/manifest.json").write_text('{"host": "ws1"}')
    (tmp_path / "source/data/set").write_text("can be had again")
    program = request.param()
    environment = {**os.environ, "RESTIC_REPOSITORY": str(tmp_path / "repository"), "RESTIC_PASSWORD": PASSWORD}
    shutil.copytree(empty_repository(program), tmp_path / "repository")
    command = [program, "--no-cache", "backup", "--host", "ws1", str(tmp_path / "source")]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return {"program": program, "entry": {"name": "nas", "url": str(tmp_path / "repository")}}


def reach(repository: dict[str, Any], tmp_path: Path, password: str = PASSWORD) -> Backup:
    return Backup(repository["entry"] | {"password": password}, repository["program"], str(tmp_path / "work"))


def test_the_manifest_is_found_and_excludes_are_applied(repository: dict[str, Any], tmp_path: Path) -> None:
    backup = reach(repository, tmp_path)
    assert backup.manifest(backup.resolve("latest", ["--host=ws1"])) == {"host": "ws1"}
    for _twice in range(2):
        backup.restore("latest", ["--host=ws1"], str(tmp_path / "target"), [str(tmp_path / "source/data")])
    restored = Path(f"{tmp_path}/target{tmp_path}/source")
    assert json.loads((restored / "manifest.json").read_text()) == {"host": "ws1"}
    assert list((restored / "data").iterdir()) == []


def test_a_snapshot_is_described_or_refused_when_missing(
    repository: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = reach(repository, tmp_path)
    found = backup.resolve("latest", ["--host=ws1"])
    assert (found["host"], found["tags"], found["paths"]) == ("ws1", [], [str(tmp_path / "source")])
    assert backup.resolve(found["id"][:8], []) == found
    with pytest.raises(Failed, match="has no snapshot --host=ws2 latest"):
        backup.resolve("latest", ["--host=ws2"])
    monkeypatch.setattr(backups, "MANIFEST", "/elsewhere/manifest.json")
    with pytest.raises(Failed, match=r"of /.*/source has no /elsewhere/manifest.json .* set bare_metal_manifest"):
        backup.manifest(found)


def test_a_damaged_file_is_named_and_others_are_restored(repository: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "source/thesis").write_bytes(os.urandom(3 << 20))
    environment = {**os.environ, "RESTIC_REPOSITORY": str(tmp_path / "repository"), "RESTIC_PASSWORD": PASSWORD}
    subprocess.run(
        [repository["program"], "--no-cache", "backup", "--host", "ws1", str(tmp_path / "source")],
        env=environment,
        check=True,
        capture_output=True,
    )
    pack = max((tmp_path / "repository/data").rglob("*/*"), key=lambda path: path.stat().st_size)
    content = bytearray(pack.read_bytes())
    content[1000] ^= 0xFF
    pack.chmod(0o600)
    pack.write_bytes(content)
    backup, thesis = reach(repository, tmp_path), str(tmp_path / "source/thesis")
    target = str(tmp_path / "target")
    # What has a hole has the size and the time of the whole: it is found again all the same.
    for _twice in range(2):
        with pytest.raises(Failed, match=f"{thesis}.*bare_metal_accept_losses"):
            backup.restore("latest", [], target, [])
        assert backup.restore("latest", [], target, [], accept_losses=True) == [thesis]
    assert Path(f"{target}{tmp_path}/source/data/set").read_text() == "can be had again"


@pytest.mark.parametrize(
    ("err", "lost"),
    [
        ("ignoring error for /a: ciphertext verification failed\nFatal: There were 1 errors\n", ["/a"]),
        (
            "ignoring error for /b: StreamPack: open /r/data/93: no such file or directory\n"
            "ignoring error for /a: decrypting blob failed: ciphertext verification failed\n"
            "ignoring error for /b: UtimesNano: no such file or directory\nFatal: There were 3 errors\n",
            ["/a", "/b"],
        ),
        (
            "ignoring error for /a: ciphertext verification failed\nFatal: There were 9000 errors\n",
            ["/a", "(more: restic reported 9000 errors)"],
        ),
        ("ignoring error for /a: write /target/a: no space left on device\nFatal: There were 1 errors\n", []),
        ("ignoring error for /a: dial tcp: connection refused\nFatal: There were 1 errors\n", []),
        ("ignoring error for /a: ciphertext verification failed\n", []),
        ("Fatal: wrong password or no key found\n", []),
    ],
)
def test_only_missing_data_counts_as_lost(err: str, lost: list[str]) -> None:
    assert backups.losses(Done(1, "", err)) == lost


def test_a_long_list_of_losses_is_cut_with_their_number() -> None:
    assert backups.summarize(["/a", "/b"]) == "/a, /b"
    assert backups.summarize([f"/{number}" for number in range(100)]).endswith("/19 and 80 more")


def test_a_wrong_password_is_reported(repository: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(Failed, match="wrong password"):
        reach(repository, tmp_path, "not the password").resolve("latest", [])


def test_secrets_are_only_in_files_of_root(repository: dict[str, Any], tmp_path: Path) -> None:
    entry: Any = {"name": "nas", "password": "hunter4"}
    entry |= {"url": "rest:https://nas:8000/ws1/", "user": "ws1", "user_password": "hunter2", "env": {"KEY": "hunter3"}}
    backup = Backup(entry, repository["program"], work := str(tmp_path / "work"))
    assert "hunter" not in " ".join(backup.restic.command("snapshots"))
    assert backup.restic.environment()["KEY"] == "hunter3"
    assert (tmp_path / "work/secrets").stat().st_mode & 0o777 == 0o700
    assert Path(work, "secrets/nas.address").read_text() == "rest:https://ws1:hunter2@nas:8000/ws1/\n"


def test_a_read_only_repository_is_not_locked(
    repository: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    backup = reach(repository, tmp_path)
    assert backup.lock == ["--no-lock"]
    assert backup.manifest(backup.resolve("latest", [])) == {"host": "ws1"}


def test_without_a_password_or_without_restic_nothing_is_asked(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="has no password"):
        Backup({"name": "nas", "url": "/mnt"}, work=str(tmp_path))
    with pytest.raises(Failed, match="install it in the live system"):
        Backup({"name": "nas", "url": "/mnt", "password": "x"}, "/no/such/restic", str(tmp_path))
    assert list(tmp_path.iterdir()) == []

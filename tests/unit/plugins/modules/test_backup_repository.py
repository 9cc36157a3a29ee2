# SPDX-License-Identifier: GPL-3.0-or-later
"""The module as the role calls it; its effect on a repository: _backup/test_repository.py."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.record import RepositoryRecord
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.repository import Opener
from ansible_collections.rigwright.workstation.plugins.module_utils._core import lock
from ansible_collections.rigwright.workstation.plugins.modules import backup_repository

from tests.unit.support.backup.hosts import PASSWORD, restic
from tests.unit.support.backup.restic_keys import weaken_new

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def tmp_path(open_path: Path) -> Path:
    """Restic runs as another user."""
    return open_path


@pytest.fixture
def call(tmp_path: Path, run_module: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    weaken_new(monkeypatch)

    def ask(
        check: bool = False,
        password: str = PASSWORD,
        names: list[str] | None = None,
        program: str | None = None,
        retire: bool = False,
    ) -> dict[str, Any]:
        return run_module(
            backup_repository,
            check=check,
            repositories=[{"name": "disk", "url": str(tmp_path / "repository"), "password": password}],
            names=["disk"] if names is None else names,
            program=program or restic(),
            retire=retire,
            user="nobody",
            folder=str(tmp_path / "secrets"),
            record=str(tmp_path / "state/repositories.json"),
        )

    return ask


def test_check_mode_needs_no_restic_and_names_the_record(call: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    found = call(check=True)
    assert (found["changed"], found["changed_paths"]) == (True, [str(tmp_path / "state/repositories.json")])
    assert list(tmp_path.iterdir()) == []
    assert call(check=True, names=[])["changed"] is False


def test_two_runs_at_once_do_not_mix_their_records(
    call: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "WAIT_SECONDS", 0)
    with lock.host_lock("backup_repository"):
        result = call()
        assert result["failed"] and "Nothing was changed" in result["msg"]
        assert call(check=True)["changed"]
    assert not (tmp_path / "repository").exists()


def test_a_repository_is_made_remembered_and_then_left_alone(
    call: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    created = call()
    assert (created["changed"], created["repositories"]) == (True, {"disk": "made"})
    record = tmp_path / "state/repositories.json"
    row = json.loads(record.read_text())["disk"]
    assert row["id"] and row["key"] and row["asked"]["owner"] == "nobody"
    assert PASSWORD not in record.read_text() and record.stat().st_mode & 0o777 == 0o600
    again = call()
    assert (again["changed"], again["repositories"], again["changed_paths"]) == (False, {"disk": "opened"}, [])
    assert call(check=True)["changed"] is False and call(check=True, password="another password")["changed"] is True

    refused = call(password="not the password")
    assert (
        refused["failed"]
        and "does not take its password" in refused["msg"]
        and "not the password" not in refused["msg"]
    )


def test_old_passwords_are_removed_on_request(call: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    call()
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/disk.password").write_text(PASSWORD)
    assert call(password="another password")["repositories"] == {"disk": "password_added"}
    done = call(password="another password", retire=True)
    assert (done["repositories"], done["findings"]) == ({"disk": "password_retired"}, [])
    (tmp_path / "secrets/disk.password").write_text("another password")
    assert call(password="another password")["changed"] is False


def test_a_cut_connection_leaves_no_secret_behind(
    call: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found_files: list[str] = []

    def cut(opener: Opener, _known: RepositoryRecord) -> None:
        found_files.extend(path.name for path in tmp_path.rglob("disk.password"))
        signal.raise_signal(signal.SIGHUP)

    assert backup_repository.SCRATCH == "/run", "memory"
    monkeypatch.setattr(backup_repository, "SCRATCH", str(tmp_path))
    monkeypatch.setattr(Opener, "open", cut)
    with pytest.raises(json.JSONDecodeError):
        call()  # says nothing
    assert found_files == ["disk.password"] and not [*tmp_path.rglob("disk.*")]


def test_without_restic_it_says_so(call: Callable[..., dict[str, Any]]) -> None:
    assert "run the role backup" in call(program="/no/such/restic")["msg"]

# SPDX-License-Identifier: GPL-3.0-or-later
"""Real directories change and come back, also after a run that was cut short."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import (
    directories as samba_directories_module,
)
from ansible_collections.rigwright.workstation.plugins.modules import samba_directories

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "rigwright_samba" / "directories.json"
    monkeypatch.setattr(samba_directories_module, "RECORD", str(path))
    return path


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    path = tmp_path / "sets"
    path.mkdir(mode=0o755)
    return path


def mode(path: Path) -> int:
    return os.stat(path).st_mode & 0o7777


def test_directory_mode_is_set_once_and_restored(run_module: Run, record: Path, shared: Path) -> None:
    request = [{"path": str(shared), "mode": "2775"}]
    result = run_module(samba_directories, check=True, directories=request)
    assert (result["changed_paths"], mode(shared), record.exists()) == ([str(shared)], 0o755, False)
    assert run_module(samba_directories, directories=request)["changed_paths"] == result["changed_paths"]
    assert mode(shared) == 0o2775
    assert not run_module(samba_directories, directories=request)["changed"]
    assert run_module(samba_directories, directories=[])["changed"]
    assert (mode(shared), record.exists()) == (0o755, False)


def test_a_disk_that_is_away_is_waited_for(run_module: Run, record: Path, shared: Path) -> None:
    request = [{"path": str(shared / "below"), "mode": "2775", "mount": str(shared)}]
    assert not run_module(samba_directories, directories=request)["changed"]
    assert not (shared / "below").exists()


def test_interrupted_run_can_be_undone(
    run_module: Run, record: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_arguments: Any) -> None:
        os.chmod(shared, 0o2775)
        raise KeyboardInterrupt

    request = [{"path": str(shared), "mode": "2770"}]
    with monkeypatch.context() as patch:
        patch.setattr(samba_directories_module, "write", cut)
        with pytest.raises(KeyboardInterrupt):
            run_module(samba_directories, directories=request)
    assert run_module(samba_directories, directories=[])["changed"]
    assert mode(shared) == 0o755


def test_an_unknown_group_and_a_damaged_record_are_refused(run_module: Run, record: Path, shared: Path) -> None:
    request = [{"path": str(shared), "group": "no-such-group"}]
    assert "no-such-group" in run_module(samba_directories, directories=request)["msg"]
    record.parent.mkdir()
    record.write_text("{")
    assert "is damaged" in run_module(samba_directories, directories=[])["msg"]
    assert mode(shared) == 0o755


def test_link_in_a_path_is_refused_and_never_followed(
    run_module: Run, record: Path, shared: Path, tmp_path: Path
) -> None:
    request = [{"path": str(shared), "mode": "2775"}]
    assert run_module(samba_directories, directories=request)["changed"]
    elsewhere = tmp_path / "elsewhere"
    shared.rename(elsewhere)
    shared.symlink_to(elsewhere)
    assert f"a link is in {shared}" in run_module(samba_directories, directories=request)["msg"]
    assert not run_module(samba_directories, directories=[])["changed"]
    assert mode(elsewhere) == 0o2775
    assert record.exists()

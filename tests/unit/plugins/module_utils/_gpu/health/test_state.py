# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a check, in directories that other users may write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import write_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import Busy, host_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import state


def test_state_is_read_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert state.read_kept(str(path)) == ("", [])
    write_file(str(path), "whole")
    assert (state.read_kept(str(path)), path.stat().st_mode & 0o777) == (("whole", []), 0o644)
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize("text", ["[" * 100_000, '{"findings": 1}', "{", ""])
def test_report_that_is_none_has_nothing_that_failed(tmp_path: Path, text: str) -> None:
    (tmp_path / "report.json").write_text(text)
    assert state.read_failing(str(tmp_path / "report.json")) == frozenset()


def test_state_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, target = tmp_path / "state.json", tmp_path / "theirs"
    target.write_text("theirs")
    path.symlink_to(target)
    assert state.read_kept(str(path))[0] == ""
    path.unlink()
    os.link(target, path)
    text, (problem,) = state.read_kept(str(path))
    assert (text, "the last check" in problem) == ("", True)
    path.unlink()
    path.write_text("of another uid")
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert state.read_kept(str(path))[0] == ("" if path.stat().st_uid else "of another uid")


def test_two_checks_of_root_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "DIRECTORY", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with state.locked(), pytest.raises(Busy), host_lock("gpu_health", 0):
        pass
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with host_lock("gpu_health"), state.locked():
        pass

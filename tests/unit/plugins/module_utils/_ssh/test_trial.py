# SPDX-License-Identifier: GPL-3.0-or-later
"""Trials of planned configurations: the copies that sshd reads, and its errors."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh import trial
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.config import Line


@pytest.fixture
def main_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a main file that includes a directory of drop-ins."""
    path = tmp_path / "sshd_config"
    path.write_text(f"Include {tmp_path}/sshd_config.d/*.conf\n")
    monkeypatch.setattr(trial, "MAIN_CONFIG", str(path))
    return path


def sshd(status: int, output: str, error: str) -> Any:
    """Return a module whose commands end like this."""
    return SimpleNamespace(run_command=lambda _command: (status, output, error))


def test_planned_files_are_copied_with_their_includes(main_config: Path) -> None:
    drop_in = str(main_config.parent / "sshd_config.d/00-rigwright.conf")
    files = trial.Files({drop_in: "Port 2222\n"})
    assert [line.keyword for line in files.lines] == ["include", "port"]
    with trial.laid_out(files) as (root, main):
        assert Path(main).read_text() == f"Include {root}{main_config.parent}/sshd_config.d/*.conf\n"
        assert Path(root + drop_in).read_text() == "Port 2222\n"
    assert not Path(root).exists()


def test_without_planned_files_the_real_ones_are_used(main_config: Path) -> None:
    with trial.laid_out(trial.Files({})) as paths:
        assert paths == ("", str(main_config))


def test_an_error_of_sshd_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "RUN", str(tmp_path / "run"))
    assert trial.effective(sshd(0, "port 22\n", ""), "sshd_config")["port"] == ["22"]
    with pytest.raises(trial.Refused, match="^line 1: Bad option; terminating$"):
        trial.effective(sshd(255, "", "line 1: Bad option\r\nterminating\r\n".replace("\r", "")), "sshd_config")


def test_the_first_line_sets_the_key_files_of_the_host() -> None:
    lines = [
        Line(trial.DROP_IN, 1, "authorizedkeysfile", "ours"),
        Line("/etc/ssh/sshd_config", 1, "authorizedkeysfile", "matched", "User bob"),
        Line("/etc/ssh/sshd_config", 2, "authorizedkeysfile", "first /etc/keys/%u"),
        Line("/etc/ssh/sshd_config", 3, "authorizedkeysfile", "second"),
    ]
    assert trial.key_files_of(lines) == ["first", "/etc/keys/%u"]
    assert trial.key_files_of(lines[:1]) == []

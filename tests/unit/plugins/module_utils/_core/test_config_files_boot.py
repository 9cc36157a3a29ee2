# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import config_files_boot as boot
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import (
    STORE,
    State,
    Store,
    Transaction,
    Wanted,
)


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    return tmp_path / "etc"


@dataclass
class Reloads:
    """The calls of a fake systemctl, which ends with a status."""

    status: int = 0
    calls: list[tuple[list[str], bool]] = field(default_factory=list)


def begin(root: Path, name: str, *paths: Path) -> None:
    """Change files up to the middle of the renames, as a power cut leaves them."""
    after = State("file", b"new\n", 0o644, os.getuid(), os.getgid())
    transaction = Transaction(Store(name, f"{root}{STORE}"), [Wanted(str(path), after) for path in paths])
    transaction.stage()
    transaction.steps = transaction.steps[:1]
    transaction.commit()


@pytest.fixture(autouse=True)
def reloads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Reloads:
    """Record each call of systemctl, with whether the recovering unit was there at that time."""
    found = Reloads()

    def run(command: list[str], **_options: Any) -> subprocess.CompletedProcess[str]:
        found.calls.append((command, (tmp_path / boot.UNIT[1:]).exists()))
        return subprocess.CompletedProcess(command, found.status, "", "Failed to reload daemon\n")

    monkeypatch.setattr(boot, "programs", SimpleNamespace(run=run))
    return found


def test_half_renamed_files_are_put_back_at_boot(tmp_path: Path, etc: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {etc / "a": "old a\n", etc / "b": "old b\n"}
    for path, text in before.items():
        path.write_text(text)
    boot.arm(str(tmp_path))
    begin(tmp_path, "x", *before)
    assert (etc / "a").read_text() == "new\n"
    assert boot.main(str(tmp_path)) == 0
    assert {path: path.read_text() for path in before} == before
    assert capsys.readouterr().out == "x: files of an interrupted run were put back\n"


def test_files_below_an_open_directory_are_left_at_boot(
    tmp_path: Path, etc: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (etc / "open").mkdir()
    boot.arm(str(tmp_path))
    begin(tmp_path, "x", etc / "open/a")
    begin(tmp_path, "y", etc / "b")
    (etc / "open").chmod(0o777)
    assert boot.main(str(tmp_path)) == 1
    assert ((etc / "open/a").exists(), (etc / "b").exists()) == (True, False)
    assert f"x: files of an interrupted run were not put back: users other than root may write in {etc}/open" in (
        capsys.readouterr().out
    )
    assert (tmp_path / boot.UNIT[1:]).exists()


def test_systemd_reads_restored_unit_files(tmp_path: Path, etc: Path, reloads: Reloads) -> None:
    boot.arm(str(tmp_path))
    begin(tmp_path, "x", etc / "x.service")
    begin(tmp_path, "y", etc / "y.service")
    assert boot.main(str(tmp_path)) == 0
    assert reloads.calls == [(["systemctl", "daemon-reload"], True)]


def test_failed_daemon_reload_is_reported(
    tmp_path: Path, etc: Path, reloads: Reloads, capsys: pytest.CaptureFixture[str]
) -> None:
    reloads.status = 1
    begin(tmp_path, "x", etc / "x.service")
    assert boot.main(str(tmp_path)) == 1
    assert "put back since: Failed to reload daemon" in capsys.readouterr().out


def test_no_daemon_reload_when_nothing_is_put_back(tmp_path: Path, reloads: Reloads) -> None:
    boot.arm(str(tmp_path))
    assert (boot.main(str(tmp_path)), reloads.calls) == (0, [])


def test_nothing_is_left_when_no_transaction_is_open(tmp_path: Path) -> None:
    boot.arm(str(tmp_path))
    assert (tmp_path / boot.LINK[1:]).is_symlink() and (tmp_path / boot.UNIT[1:]).exists()
    boot.disarm(str(tmp_path))
    assert [path for path in tmp_path.rglob("*") if "recover" in path.name or path.name == "sysinit.target.wants"] == []


def test_the_unit_stays_while_another_set_is_open(tmp_path: Path, etc: Path) -> None:
    boot.arm(str(tmp_path))
    begin(tmp_path, "x", etc / "a", etc / "b")
    boot.disarm(str(tmp_path))
    assert (tmp_path / boot.LINK[1:]).is_symlink()


def test_the_program_runs_isolated(tmp_path: Path) -> None:
    boot.arm(str(tmp_path))
    program = tmp_path / boot.PROGRAM[1:]
    code = f"import sys; sys.path.insert(0, {str(program)!r}); from {boot.__name__} import main; sys.exit(main({str(tmp_path)!r}))"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert not program.exists()


def test_the_unit_runs_before_services(tmp_path: Path) -> None:
    boot.arm(str(tmp_path))
    assert os.readlink(tmp_path / boot.LINK[1:]) == boot.UNIT
    lines = (tmp_path / boot.UNIT[1:]).read_text().splitlines()
    assert f"ExecStart={sys.executable} -I -B {boot.PROGRAM}" in lines and "Before=sysinit.target" in lines


def test_what_a_killed_run_left_of_the_program_goes(tmp_path: Path) -> None:
    boot.arm(str(tmp_path))
    unfinished = [
        tmp_path / f"{os.path.dirname(path)}/.{os.path.basename(path)}.abcd1234"[1:]
        for path in (boot.PROGRAM, boot.UNIT)
    ]
    for path in unfinished:
        path.touch()
    boot.disarm(str(tmp_path))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]

# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person types, what they read, and that the program needs nothing that a target has not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import cli as program
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import state as states

from tests.unit.support.backup.hosts import Host, restic

PACKAGE = "ansible_collections.rigwright.workstation.plugins.module_utils"
Said = Callable[[], str]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path, restic())


@pytest.fixture
def systemd(monkeypatch: pytest.MonkeyPatch, host: Host) -> list[tuple[str, ...]]:
    """Fake systemctl: starting a unit runs it."""
    commands: list[tuple[str, ...]] = []

    def call(*command: str) -> tuple[int, str]:
        commands.append(command)
        if command[1] == "start":
            verb = command[-1].removeprefix("rigwright-backup-").partition("-")[0]
            host.do(verb)
        return 0, "inactive"

    monkeypatch.setattr(program, "call", call)
    return commands


def test_a_run_by_hand_starts_the_unit_and_prints_the_result(
    host: Host, systemd: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    host.init()
    (host.source / "file").write_text("x")
    assert program.main(["run", "home"], host.place) == 0
    assert ("systemctl", "start", "--no-block", "rigwright-backup-run-home.service") in systemd
    assert "run home: ok, snapshot " in capsys.readouterr().out

    host.configure(job={"paths": ["/no/such"]})
    assert program.main(["run", "home"], host.place) == 1
    output = capsys.readouterr().out
    assert "source_missing" in output and "missing: /no/such" in output and "To do: bring it back" in output


def test_a_unit_that_waits_for_another_is_waited_for(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host.init()
    (host.source / "file").write_text("x")
    # As `systemctl show` says it while a unit of After= still starts, and then while this one does.
    shown = iter(["inactive\n133", "activating\n133", "deactivating\n133", "inactive"])

    def call(*command: str) -> tuple[int, str]:
        if command[1] == "start":
            return 0, ""
        output = next(shown)
        if output.startswith("deactivating"):
            host.do("run")
        return 0, output

    monkeypatch.setattr(program, "call", call)
    monkeypatch.setattr(program.time, "sleep", lambda _seconds: None)
    assert program.main(["run", "home"], host.place) == 0
    assert "run home: ok, snapshot " in capsys.readouterr().out


def test_a_missing_job_or_unit_is_reported_in_one_line(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["run", "hom"], host.place) == 1
    assert capsys.readouterr().err == "rigwright-backup: there is no job 'hom': name one of home\n"
    host.configure(repositories=[{"name": "disk", "append_only": True}])
    assert program.main(["prune", "disk"], host.place) == 1
    assert "has no unit: the server only appends" in capsys.readouterr().err


def test_failed_unit_is_sent_or_the_journal_has_the_reason(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent: list[tuple[str, str]] = []

    def send(title: str, text: str) -> str:
        sent.append((title, text))
        return "no message was sent"

    monkeypatch.setattr(program.notify, "send", send)
    assert program.main(["report", "rigwright-backup-run-home.service"], host.place) == 1
    assert [title for title, _text in sent] == ["failed: Back up home"]
    assert capsys.readouterr().out == "no message was sent\n"


def test_status_is_findings_with_remedies(host: Host, systemd: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    states.save(
        host.config, host.place, "run", "home", {"kind": "locked", "words": "by PID 1", "exit_code": 1}, time.time() + 1
    )
    assert program.main(["status", "--json"], host.place) == 1
    found = {row["id"]: row for row in json.loads(capsys.readouterr().out)["findings"]}
    assert found["backup.run.home"]["status"] == "fail" and "by PID 1" in found["backup.run.home"]["evidence"]
    assert found["backup.check.disk"]["status"] == "skip"
    assert program.main(["status"], host.place) == 1
    assert "      To do: see who works on the repository" in capsys.readouterr().out


def test_restore_shows_a_plan_and_refuses_losses(
    host: Host, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    host.init()
    (host.source / "file").write_text("x")
    host.do("run")
    arguments = ["restore", "home", "--path", str(host.source)]
    assert program.main([*arguments, "--target", str(tmp_path / "to"), "--plan"], host.place) == 0
    assert ": 1 files, 1 B, of " in capsys.readouterr().out and not (tmp_path / "to").exists()
    assert program.main([*arguments, "--target", "/"], host.place) == 1
    assert "1 files are there already" in capsys.readouterr().err


def test_a_dump_is_restored_byte_for_byte(host: Host, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    host.init()
    host.configure(
        job={"paths": [], "dumps": [{"name": "wiki", "command": ["printf", "a\\377\\0b"], "filename": "wiki.sql"}]}
    )
    host.do("run")
    capfdbinary.readouterr()
    assert program.main(["restore", "home", "--dump", "wiki"], host.place) == 0
    out, err = capfdbinary.readouterr()
    assert out == b"a\xff\0b" and b"/wiki.sql" in err
    assert program.print_result(host.config, "drill", "home", host.do("drill")) == 0
    assert b"1 dumps read and compared" in capfdbinary.readouterr().out
    assert program.main(["restore", "home", "--dump", "wik"], host.place) == 1
    assert b"it has wiki" in capfdbinary.readouterr().err
    assert program.main(["restore", "home"], host.place) == 1
    assert b"say where to" in capfdbinary.readouterr().err


def test_files_that_stayed_are_counted(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host.init()
    host.do("run")
    monkeypatch.setattr(program.restoring, "carry_out", lambda *_arguments: ("", 1))
    assert program.main(["restore", "home", "--target", str(host.root / "to")], host.place) == 0
    assert capsys.readouterr().out.endswith("; 1 files were there by then, and stayed as they are\n")


def test_a_restore_that_is_interrupted_says_so_in_one_line(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(program.restoring, "make_plan", interrupted)
    assert program.main(["restore", "home", "--target", "/"], host.place) == 130
    assert capsys.readouterr().err == "\nrigwright-backup: restore was ended, and is not whole\n"


def test_a_restore_that_is_ended_takes_restic_with_it(host: Host, tmp_path: Path) -> None:
    host.init()
    (host.source / "large").write_bytes(os.urandom(8 << 20))
    host.do("run")
    host.configure(limit_download_kib=200)
    code = f"""
from {PACKAGE}._backup import cli as program, config as configuration
place = configuration.Place(**{vars(host.place)!r})
raise SystemExit(program.main(["restore", "home", "--target", "{tmp_path}/to"], place))
"""

    def restoring(of: int) -> list[str]:
        shown = subprocess.run(
            ["ps", "-ww", "-o", "args=", "--ppid", str(of)], capture_output=True, text=True, check=False
        )
        return [line for line in shown.stdout.splitlines() if " restore " in line]

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for number in (signal.SIGTERM, signal.SIGHUP):
        child = subprocess.Popen([sys.executable, "-c", code], env=environment)
        while not restoring(child.pid):
            assert child.poll() is None
            time.sleep(0.05)
        child.send_signal(number)
        assert child.wait(30) == 128 + number
        assert not (tmp_path / "to").exists() and not [*tmp_path.glob(".rigwright-restore-*")]


def test_progress_is_one_line() -> None:
    status = {
        "percent_done": 0.5,
        "bytes_done": 1 << 20,
        "total_bytes": 1 << 21,
        "files_done": 3,
        "total_files": 6,
        "seconds_remaining": 90,
    }
    assert program.progress_line(status) == " 50.0 %  1.0 MiB of 2.0 MiB  3 of 6 files  1 min 30 s left"
    assert program.progress_line({}) == ""
    status = {"percent_done": 0.25, "total_files": 4, "files_restored": 1, "total_bytes": 4096, "bytes_restored": 1024}
    assert program.progress_line(status) == " 25.0 %  1.0 KiB of 4.0 KiB  1 of 4 files"


def test_missing_rights_are_reported_with_a_remedy(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*_words: object) -> int:
        raise PermissionError(13, "Permission denied", "/etc/rigwright/backup/nas.address")

    monkeypatch.setattr(program, "act", refused)
    assert program.main(["snapshots", "home"], host.place) == 1
    assert capsys.readouterr().err.endswith("'/etc/rigwright/backup/nas.address': run it as root\n")


def test_check_and_forget_go_on_without_their_states(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.init()
    (host.source / "file").write_text("x")
    host.do("run")
    read = states.read_state

    def closed_to_units(*arguments: Any) -> Any:
        if sys._getframe(1).f_code.co_filename == program.__file__:
            raise PermissionError(13, "Permission denied")
        return read(*arguments)

    monkeypatch.setattr(states, "closed", lambda _place: "the directory was closed")
    monkeypatch.setattr(states, "read_state", closed_to_units)
    for verb, subject in (("check", "disk"), ("forget", "home")):
        program.step(host.config, host.place, "main", verb, subject)
        result = json.loads((host.root / f"run/{verb}-{subject}/result.json").read_text())
        assert (result["kind"], result["words"]) == ("ok", "the directory was closed")

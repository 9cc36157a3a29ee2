# SPDX-License-Identifier: GPL-3.0-or-later
"""The program as it is installed: one file, started by a user, on a pipe and on real terminals."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import bundle
from ansible_collections.rigwright.workstation.plugins.module_utils._status import program

LIMIT_S = 60
GPU = {"index": 0, "name": "NVIDIA H200", "memory_total_mib": 1024, "memory_used_mib": 512, "processes": []}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bin") / "workstation-status"
    path.write_bytes(bundle.bundle("_status.program"))
    return path


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Return a directory with the snapshots of two hosts, of which one cannot be used."""
    folder = tmp_path / "fleet"
    folder.mkdir()
    snapshot = {"format": 1, "time": time.time(), "interval_s": 15, "host": "ws1", "gpus": [GPU]}
    (folder / "ws1.json").write_text(json.dumps(snapshot))
    (folder / "ws2.json").write_text("{")
    return folder


def start(installed: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-IB", installed, *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=LIMIT_S, check=False)


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(self, command: list[str | Path], columns: int, rows: int) -> None:
        self.controller, self.terminal = pty.openpty()
        self.resize(columns, rows)
        self.modes = termios.tcgetattr(self.terminal)
        self.process = subprocess.Popen(
            command,
            stdin=self.terminal,
            stdout=self.terminal,
            stderr=self.terminal,
            start_new_session=True,
            env={**os.environ, "TERM": "linux"},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait_for(self, pattern: str) -> str:
        """Read until the output since the last call has a pattern, and return that output."""
        deadline, found, rest = time.monotonic() + LIMIT_S, "", b""
        while time.monotonic() < deadline:
            if select.select([self.controller], [], [], 0.1)[0]:
                rest += os.read(self.controller, 65536)
                found = rest.decode(errors="replace")
                if re.search(pattern, found, re.DOTALL):
                    return found
        raise AssertionError(f"no {pattern!r} in {found!r}")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.controller)
        os.close(self.terminal)


@pytest.fixture
def terminal(installed: Path, fleet: Path) -> Iterator[Terminal]:
    found = Terminal([sys.executable, "-IB", installed, "--tty", "--fleet", fleet], 53, 20)
    yield found
    found.close()


def test_once_prints_the_state(installed: Path) -> None:
    done = start(installed, "--once", "--size", "80x24")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) <= 24 and max(len(line) for line in lines) <= 80
    assert "Machine" in done.stdout and "memory" in done.stdout and "\x1b" not in done.stdout


def test_fleet_has_each_host_and_what_is_wrong(installed: Path, fleet: Path) -> None:
    done = start(installed, "--fleet", fleet, "--size", "160x50")
    assert "2 hosts" in done.stdout and "0 H200" in done.stdout
    assert "ws1" in done.stdout and "ws2" in done.stdout and "half written" in done.stdout


def test_missing_fleet_is_refused(installed: Path, tmp_path: Path) -> None:
    done = start(installed, "--fleet", tmp_path / "nowhere")
    assert done.returncode == 1 and "No such file" in done.stderr


def test_files_are_written_whole(installed: Path, tmp_path: Path) -> None:
    done = start(installed, "--html", tmp_path / "status.html", "--line", tmp_path / "login")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "status.html").read_text().startswith("<!DOCTYPE html>")
    assert re.fullmatch(r"\S+ \d\d:\d\d: .*load .*\(workstation-status\)\n", (tmp_path / "login").read_text())
    assert sorted(os.listdir(tmp_path)) == ["login", "status.html"]
    assert os.stat(tmp_path / "login").st_mode & 0o777 == 0o644


def test_directory_that_is_missing_is_an_error(installed: Path, tmp_path: Path) -> None:
    done = start(installed, "--line", tmp_path / "nowhere/login")
    assert done.returncode == 1 and "No such file" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_ends_the_display_and_restores_the_terminal(terminal: Terminal, number: signal.Signals) -> None:
    terminal.wait_for(r"0 H200")
    assert not termios.tcgetattr(terminal.terminal)[3] & termios.ECHO
    terminal.process.send_signal(number)
    terminal.wait_for(r"\x1b\[\?25h")
    assert terminal.process.wait(LIMIT_S) == (0 if number == signal.SIGTERM else 128 + number)
    assert termios.tcgetattr(terminal.terminal) == terminal.modes


def test_ctrl_c_ends_the_display(terminal: Terminal) -> None:
    terminal.wait_for(r"0 H200")
    # Neither Ctrl-S nor Ctrl-Z stops it.
    os.write(terminal.controller, b"typed\x13\x1a\x03")
    assert "typed" not in terminal.wait_for(r"\x1b\[\?25h")
    assert terminal.process.wait(LIMIT_S) == 128 + signal.SIGINT


@pytest.mark.parametrize(("columns", "rows"), [(53, 20), (80, 24), (160, 50)])
def test_frame_fits_the_terminal_at_once(terminal: Terminal, columns: int, rows: int) -> None:
    terminal.wait_for(r"0 H200.*ws2")
    # A change of the size draws without waiting for the interval.
    terminal.resize(columns - 1, rows)
    terminal.resize(columns, rows)
    frame = terminal.wait_for(r"\x1b\[H.*0 H200.*half written").rpartition("\x1b[H")[2]
    # The terminal adds a carriage return to each line feed.
    lines = re.split(r"\r+\n", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", frame))
    assert len(lines) <= rows and max(len(line) for line in lines) <= columns
    assert set("".join(lines)) <= program.text.CHARACTERS


def test_terminal_is_needed(installed: Path) -> None:
    done = start(installed, "--tty")
    assert done.returncode == 1 and "--tty needs a terminal" in done.stderr


@pytest.mark.parametrize("size", ["80", "0x24", "80x", "axb", "99999x1"])
def test_invalid_size_is_refused(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        program.parser().parse_args(["--size", size])
    assert "is no size such as 80x24" in capsys.readouterr().err


def test_settings_of_the_role_are_read() -> None:
    assert program.settings_of('{"interval_s": 5, "other": 1}') == program.Settings(interval_s=5)
    # No wait of the system is that long.
    assert program.settings_of('{"interval_s": 100000000000000}').interval_s == 86400
    assert program.settings_of('{"interval_s": true}') == program.Settings()
    with pytest.raises(ValueError, match="nested too deeply"):
        program.settings_of("[" * 100_000)
    assert program.settings_of("") == program.Settings()
    assert program.settings_of('{"interval_s": 0}').interval_s == 1
    with pytest.raises(ValueError, match="no object"):
        program.settings_of("[]")
    with pytest.raises(ValueError, match="property name"):
        program.settings_of("{")

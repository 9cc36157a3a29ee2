# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages on real terminals."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import terminals

UID, GROUP = os.geteuid(), os.getegid()


@pytest.fixture
def terminal() -> Iterator[tuple[int, str]]:
    """Open a terminal of this user, which takes messages."""
    master, slave = pty.openpty()
    name = os.ttyname(slave)
    os.chown(name, -1, GROUP)
    os.chmod(name, 0o620)
    yield master, name
    os.close(master)
    os.close(slave)


def text_of(master: int) -> str:
    os.set_blocking(master, False)
    try:
        # The terminal adds a \\r to each line.
        return os.read(master, 4096).decode().replace("\r", "")
    except BlockingIOError:
        return ""


@pytest.fixture
def only(terminal: tuple[int, str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Leave the terminals of others alone."""
    number = os.path.basename(terminal[1])
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda handle: [name for name in listed(handle) if name == number])
    return terminal


def test_owner_sees_the_message_without_its_control_characters(only: tuple[int, str]) -> None:
    assert terminals.send("idle \x1b[2Jfor 2 h", UID, GROUP, ["/dev/pts"]) == 1
    assert text_of(only[0]) == "\n\aidle ?[2Jfor 2 h\n"


@pytest.mark.parametrize(
    ("uid", "group", "mode"), [(UID + 1, GROUP, 0o620), (UID, GROUP + 1, 0o620), (UID, GROUP, 0o600)]
)
def test_terminal_that_takes_no_message_is_left_alone(only: tuple[int, str], uid: int, group: int, mode: int) -> None:
    os.chmod(only[1], mode)
    assert terminals.send("idle", uid, group, ["/dev/pts"]) == 0
    assert text_of(only[0]) == ""


def test_missing_terminal_and_directory_are_no_error(tmp_path: Path) -> None:
    assert terminals.send("idle", UID, GROUP, [str(tmp_path / "nowhere"), str(tmp_path)]) == 0


def test_files_links_and_other_devices_are_no_terminals(tmp_path: Path, terminal: tuple[int, str]) -> None:
    (tmp_path / "1").write_text("")
    (tmp_path / "1").chmod(0o620)
    (tmp_path / "2").symlink_to(terminal[1])
    (tmp_path / "tty3").symlink_to("/dev/null")
    assert terminals.send("idle", UID, GROUP, [str(tmp_path)]) == 0
    assert (tmp_path / "1").read_text() == ""
    assert text_of(terminal[0]) == ""


def test_full_terminal_is_not_waited_for(only: tuple[int, str]) -> None:
    def send() -> int:
        return terminals.send("x" * 400, UID, GROUP, ["/dev/pts"])

    assert send() == 1
    # Nobody reads it, so that its buffers are full after some kilobytes.
    assert any(send() == 0 for _number in range(10_000))


def test_last_used_terminals_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [pty.openpty() for _number in range(terminals.MOST + 2)]
    names = [os.ttyname(slave) for _master, slave in pairs]
    listed = os.listdir
    own = {os.path.basename(name) for name in names}
    monkeypatch.setattr(os, "listdir", lambda handle: [name for name in listed(handle) if name in own])
    for number, name in enumerate(names):
        os.chown(name, -1, GROUP)
        os.chmod(name, 0o620)
        os.utime(name, (1000.0 + number, 1000.0))
    assert terminals.send("idle", UID, GROUP, ["/dev/pts"]) == terminals.MOST
    assert [bool(text_of(master)) for master, _slave in pairs] == [False, False, True, True, True]
    for pair in pairs:
        for handle in pair:
            os.close(handle)


def test_group_of_terminals_is_found() -> None:
    entry = subprocess.run(["getent", "group", "tty"], capture_output=True, text=True, check=True).stdout
    assert terminals.terminal_group() == int(entry.split(":")[2])

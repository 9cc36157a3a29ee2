# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of the daemon's account and their output; test_gnome_apply.py tests whole runs."""

from __future__ import annotations

import pwd
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import grdctl
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.grdctl import Grdctl, GrdctlError

RECORDED = Path(__file__).parents[3] / "fixtures" / "grdctl"
HOME = "/var/lib/gnome-remote-desktop"


class Terminal:
    """A fake run_command that returns its answers in turn and records the commands."""

    def __init__(self, *answers: tuple[int, str, str]) -> None:
        self.answers = list(answers)
        self.commands: list[list[str]] = []
        self.data: list[str | None] = []

    def __call__(self, command: list[str], data: str | None = None, **_options: Any) -> tuple[int, str, str]:
        self.commands.append(command)
        self.data.append(data)
        return self.answers.pop(0)


def test_a_secret_is_input_and_not_an_argument() -> None:
    terminal = Terminal((0, "", ""))
    Grdctl(terminal, HOME).call("rdp", "set-credentials", "remote", data="geheim\n")
    assert terminal.commands[0][-4:] == ["grdctl", "rdp", "set-credentials", "remote"]
    assert terminal.data == ["geheim\n"]


def test_an_error_never_has_the_output_with_the_password() -> None:
    with pytest.raises(GrdctlError, match="ended with 139 and printed: nothing") as failure:
        Grdctl(Terminal((139, "\tPassword: geheim\n", "")), HOME).settings()
    assert "geheim" not in str(failure.value)


def test_a_grdctl_without_remote_login_is_an_error() -> None:
    with pytest.raises(GrdctlError, match="install the package gnome-remote-desktop, 47 or later"):
        Grdctl(Terminal((0, "Usage: grdctl [OPTIONS...] COMMAND\n", "")), HOME).settings()


def test_the_daemons_account_removes_the_settings() -> None:
    terminal = Terminal((0, "", ""))
    Grdctl(terminal, HOME).forget()
    assert terminal.commands[0][:4] == ["runuser", "-u", "gnome-remote-desktop", "--"]
    assert terminal.commands[0][-2:] == [
        "/etc/gnome-remote-desktop/grd.conf",
        "/var/lib/gnome-remote-desktop/.local/share/gnome-remote-desktop/grd.conf",
    ]


@pytest.mark.parametrize(("account", "program"), [(False, True), (True, False)])
def test_account_and_program_are_both_needed(monkeypatch: pytest.MonkeyPatch, account: bool, program: bool) -> None:
    accounts = {"gnome-remote-desktop": SimpleNamespace(pw_dir=HOME)} if account else {}
    monkeypatch.setattr(pwd, "getpwnam", accounts.__getitem__)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if program else None)
    assert grdctl.find(Terminal()) is None


def test_loginctl_gets_one_option_for_each_property() -> None:
    listed = " c1 102 Debian-gdm - 233 greeter - yes 2min ago\nc17 1001 alice - 6071 user - no -\n"
    terminal = Terminal((0, listed, ""), (0, (RECORDED / "sessions.txt").read_text(), ""))
    assert grdctl.sessions(terminal) == ["alice"]
    assert terminal.commands[1][-2:] == ["c1", "c17"]
    assert "--property=Remote" in terminal.commands[1]


@pytest.mark.parametrize("answer", [(0, "", ""), (1, "", "System has not been booted with systemd")])
def test_a_host_without_sessions_or_logind_has_none(answer: tuple[int, str, str]) -> None:
    assert grdctl.sessions(Terminal(answer)) == []

# SPDX-License-Identifier: GPL-3.0-or-later
"""Real output of grdctl 48 and loginctl on a Debian 13 host (fixtures/grdctl), and the commands that follow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp import gnome_remote_desktop as remote
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.gnome_remote_desktop import Settings

RECORDED = Path(__file__).parents[3] / "fixtures" / "grdctl"
PASSWORD = 'Trees "%$ grün 1'
RUNNING = Settings(
    enabled=True,
    port=3390,
    certificate="/etc/gnome-remote-desktop/tls/t.crt",
    key="/etc/gnome-remote-desktop/tls/t.key",
    user="remote",
    password=PASSWORD,
)
FRESH = Settings(enabled=False, port=3389)


def recorded(name: str) -> str:
    output = (RECORDED / name).read_text()
    # Lines of grdctl on a terminal end with CR LF, and the repository has no CR.
    return output.replace("\n", "\r\n") if name == "terminal.txt" else output


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("fresh.txt", FRESH),
        ("running.txt", RUNNING),
        ("terminal.txt", RUNNING),
        ("certificate_missing.txt", replace(RUNNING, certificate=None)),
    ],
)
def test_the_output_of_grdctl_is_parsed(name: str, settings: Settings) -> None:
    assert remote.parse_status(recorded(name)) == settings


def test_a_password_keeps_its_blanks_and_colons() -> None:
    output = recorded("running.txt").replace(PASSWORD, "  a: b ")
    assert remote.parse_status(output).password == "  a: b "


@pytest.mark.parametrize(
    "output", ["", "Usage: grdctl [OPTIONS...] COMMAND\n", "VNC:\n\tStatus: enabled\n\tPort: 5900\n"]
)
def test_output_without_rdp_is_an_error(output: str) -> None:
    with pytest.raises(ValueError, match="the state of RDP or its port is missing"):
        remote.parse_status(output)


def test_neither_settings_nor_commands_show_the_password() -> None:
    assert PASSWORD not in repr(RUNNING) + remote.shown(RUNNING) + repr(remote.plan(FRESH, RUNNING))


def test_only_remote_logins_at_gdm_are_sessions() -> None:
    assert remote.parse_sessions(recorded("sessions.txt")) == ["alice"]
    ssh = "Id=7\nName=bob\nRemote=yes\nService=sshd\nType=tty\nClass=user\n"
    here = "Id=8\nName=carol\nRemote=no\nService=gdm-password\nType=wayland\nClass=user\n"
    assert remote.parse_sessions(f"{ssh}\n{here}") == []
    assert remote.parse_sessions("") == []


def test_the_wanted_settings_need_no_command() -> None:
    assert remote.plan(RUNNING, RUNNING) == []
    assert remote.plan(RUNNING, Settings()) == []


def test_rdp_is_enabled_last_and_only_the_password_is_input() -> None:
    commands = remote.plan(FRESH, RUNNING)
    assert [command.arguments for command in commands] == [
        ("rdp", "set-port", "3390"),
        ("rdp", "set-tls-cert", "/etc/gnome-remote-desktop/tls/t.crt"),
        ("rdp", "set-tls-key", "/etc/gnome-remote-desktop/tls/t.key"),
        ("rdp", "set-credentials", "remote"),
        ("rdp", "enable"),
    ]
    assert [command.data for command in commands] == [None, None, None, f"{PASSWORD}\n", None]


@pytest.mark.parametrize(
    ("change", "changes"),
    [
        ({"port": 3389}, ["port 3389"]),
        ({"password": "another"}, ["credential of remote: another password"]),
        ({"user": "machine"}, ["credential of machine"]),
        ({"enabled": False, "port": 3389}, ["RDP disabled", "port 3389"]),
    ],
)
def test_only_changed_settings_are_set(change: dict[str, Any], changes: list[str]) -> None:
    assert [command.change for command in remote.plan(RUNNING, replace(RUNNING, **change))] == changes


def test_absent_disables_rdp_and_clears_the_credential() -> None:
    commands = [command.arguments for command in remote.plan_absent(RUNNING)]
    assert commands == [("rdp", "disable"), ("rdp", "clear-credentials")]
    assert remote.plan_absent(FRESH) == []


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        # grdctl exits with 0 and does not keep 70000.
        (Settings(port=70000), "`port` is 70000, which is not a port"),
        (Settings(port=0), "`port` is 0, which is not a port"),
        (Settings(certificate="tls/server.crt"), "`certificate` is tls/server.crt, which is not an absolute path"),
        (Settings(key="server.key"), "`key` is server.key, which is not an absolute path"),
        (Settings(user="remote", password=""), "`password` is empty"),
        (Settings(user="", password="x"), "`user` is empty"),
        (Settings(user="remote", password="one\ntwo"), "`password` has a line break"),
        (Settings(user="re\x1bmote", password="x"), "`user` has a line break or another character"),
        (Settings(user="remote", password="(null)"), "`password` is (null), which grdctl prints for a missing one"),
        (Settings(user="remote"), "`user` and `password` belong together"),
        (Settings(password="x"), "`user` and `password` belong together"),
    ],
)
def test_values_that_grdctl_would_lose_are_refused(wanted: Settings, problem: str) -> None:
    problems = remote.find_problems(wanted)
    assert len(problems) == 1
    assert problems[0].startswith(problem)
    assert ":" in problems[0]


def test_a_problem_of_the_password_does_not_show_it() -> None:
    assert "geheim" not in "".join(remote.find_problems(Settings(user="remote", password="geheim\n1")))


def test_special_characters_in_a_password_are_accepted() -> None:
    assert remote.find_problems(RUNNING) == []


def test_commands_run_as_the_daemons_account() -> None:
    assert remote.as_account("/var/lib/gnome-remote-desktop", "grdctl", "status") == [
        *("runuser", "-u", "gnome-remote-desktop", "--"),
        *("env", "-i", "HOME=/var/lib/gnome-remote-desktop", "LC_ALL=C.UTF-8", "LANGUAGE=", "PATH=/usr/bin:/bin"),
        *("grdctl", "status"),
    ]

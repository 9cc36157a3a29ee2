# SPDX-License-Identifier: GPL-3.0-or-later
"""What grdctl 48 and loginctl really said on a Debian 13 host (fixtures/grdctl), and what is made of it."""

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
    said = (RECORDED / name).read_text()
    # On a terminal grdctl's lines end so; in the repository they may not.
    return said.replace("\n", "\r\n") if name == "terminal.txt" else said


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("fresh.txt", FRESH),
        ("running.txt", RUNNING),
        ("terminal.txt", RUNNING),
        ("certificate_missing.txt", replace(RUNNING, certificate=None)),
    ],
)
def test_what_grdctl_says_is_understood(name: str, settings: Settings) -> None:
    assert remote.parse_status(recorded(name)) == settings


def test_a_password_keeps_its_blanks_and_colons() -> None:
    said = recorded("running.txt").replace(PASSWORD, "  a: b ")
    assert remote.parse_status(said).password == "  a: b "


@pytest.mark.parametrize(
    "said", ["", "Usage: grdctl [OPTIONS...] COMMAND\n", "VNC:\n\tStatus: enabled\n\tPort: 5900\n"]
)
def test_an_answer_about_something_else_is_no_answer(said: str) -> None:
    with pytest.raises(ValueError, match="whether RDP is enabled"):
        remote.parse_status(said)


def test_neither_settings_nor_commands_show_the_password() -> None:
    assert PASSWORD not in repr(RUNNING) + remote.shown(RUNNING) + repr(remote.plan(FRESH, RUNNING))


def test_only_users_who_logged_in_at_gdm_from_elsewhere_have_a_session_to_lose() -> None:
    assert remote.parse_sessions(recorded("sessions.txt")) == ["alice"]
    ssh = "Id=7\nName=bob\nRemote=yes\nService=sshd\nType=tty\nClass=user\n"
    here = "Id=8\nName=carol\nRemote=no\nService=gdm-password\nType=wayland\nClass=user\n"
    assert remote.parse_sessions(f"{ssh}\n{here}") == []
    assert remote.parse_sessions("") == []


def test_settings_that_are_as_wanted_need_nothing() -> None:
    assert remote.plan(RUNNING, RUNNING) == []
    assert remote.plan(RUNNING, Settings()) == []


def test_all_is_set_before_rdp_is_enabled_and_only_the_password_is_read() -> None:
    commands = remote.plan(FRESH, RUNNING)
    assert [command.words for command in commands] == [
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
def test_only_what_differs_is_set(change: dict[str, Any], changes: list[str]) -> None:
    assert [command.change for command in remote.plan(RUNNING, replace(RUNNING, **change))] == changes


def test_who_is_kept_out_leaves_no_secret() -> None:
    words = [command.words for command in remote.plan_absent(RUNNING)]
    assert words == [("rdp", "disable"), ("rdp", "clear-credentials")]
    assert remote.plan_absent(FRESH) == []


@pytest.mark.parametrize(
    ("wanted", "fault"),
    [
        # grdctl ends with 0 and keeps 70000 out of sight.
        (Settings(port=70000), "`port` is 70000, which is no port"),
        (Settings(port=0), "`port` is 0, which is no port"),
        (Settings(certificate="tls/server.crt"), "`certificate` is tls/server.crt, which is no absolute path"),
        (Settings(key="server.key"), "`key` is server.key, which is no absolute path"),
        (Settings(user="remote", password=""), "`password` is empty"),
        (Settings(user="", password="x"), "`user` is empty"),
        (Settings(user="remote", password="one\ntwo"), "`password` has a line break"),
        (Settings(user="re\x1bmote", password="x"), "`user` has a line break or another character"),
        (Settings(user="remote", password="(null)"), "`password` is (null), which grdctl prints for none"),
        (Settings(user="remote"), "`user` and `password` belong together"),
        (Settings(password="x"), "`user` and `password` belong together"),
    ],
)
def test_what_grdctl_would_not_keep_is_refused_with_a_remedy(wanted: Settings, fault: str) -> None:
    faults = remote.find_faults(wanted)
    assert len(faults) == 1
    assert faults[0].startswith(fault)
    assert ":" in faults[0]


def test_a_fault_of_the_password_does_not_tell_it() -> None:
    assert "geheim" not in "".join(remote.find_faults(Settings(user="remote", password="geheim\n1")))


def test_quotes_percent_signs_and_letters_of_any_language_are_welcome() -> None:
    assert remote.find_faults(RUNNING) == []


def test_commands_run_as_the_daemons_account_with_its_environment_alone() -> None:
    assert remote.as_account("/var/lib/gnome-remote-desktop", "grdctl", "status") == [
        *("runuser", "-u", "gnome-remote-desktop", "--"),
        *("env", "-i", "HOME=/var/lib/gnome-remote-desktop", "LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin"),
        *("grdctl", "status"),
    ]

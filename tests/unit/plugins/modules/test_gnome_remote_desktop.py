# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with a grdctl that keeps what it is told, and does so as badly as grdctl 48 does."""

from __future__ import annotations

import json
import pwd
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.modules import gnome_remote_desktop

Run = Callable[..., dict[str, Any]]

RECORDED = Path(__file__).parents[2] / "fixtures" / "grdctl"
OPTIONS = {"set-port": "Port", "set-tls-cert": "TLS certificate", "set-tls-key": "TLS key"}
PASSWORD = 'Trees "%$ grün 1'
WANTED: dict[str, Any] = {
    "enabled": True,
    "port": 3390,
    "certificate": "/etc/gnome-remote-desktop/tls/t.crt",
    "key": "/etc/gnome-remote-desktop/tls/t.key",
    "user": "remote",
    "password": PASSWORD,
}


class Host:
    """Answers the commands of the module. ``readable``: the files that the daemon's account can read."""

    def __init__(self) -> None:
        self.told = {"Status": "disabled", "Port": "3389"}
        self.readable = {WANTED["certificate"], WANTED["key"]}
        self.sessions = ""
        self.failing = self.lost = ""
        self.written: list[str] = []
        self.arguments: list[str] = []

    def status(self) -> str:
        names = ("Status", "Port", "TLS certificate", "TLS fingerprint", "TLS key", "Username", "Password")
        known = dict(self.told)
        if "TLS certificate" in known:
            known["TLS fingerprint"] = ":".join(["2e"] * 32)
        active = "active" if self.told["Status"] == "enabled" else "inactive"
        lines = "".join(f"\t{name}: {known.get(name, '(null)')}\n" for name in names)
        return f"Overall:\n\tUnit status: {active}\nRDP:\n{lines}"

    def run(self, command: list[str], data: str | None, binary_data: bool) -> tuple[int, str, str]:
        self.arguments += command
        if command[0] == "loginctl":
            return 0, self.sessions if "show-session" in command else "c17 1001 alice - 6071 user - no -\n", ""
        assert command[:4] == ["runuser", "-u", "gnome-remote-desktop", "--"]
        if "test" in command:
            return int(command[-1] not in self.readable), "", ""
        if "rm" in command:
            self.written.append(" ".join(command[command.index("rm") :]))
            if self.failing != "rm":
                self.told = {name: value for name, value in self.told.items() if name in ("Username", "Password")}
                self.told |= {"Status": "disabled", "Port": "3389"}
            return int(self.failing == "rm"), "", "rm: cannot remove it" if self.failing == "rm" else ""
        words = command[command.index("grdctl") + 1 :]
        if words == ["status", "--show-credentials"]:
            return (
                0,
                self.status(),
                "Init TPM credentials failed because No TPM device found, using GKeyFile as fallback.\n",
            )
        self.written.append(" ".join(words))
        if words[1] == self.failing:
            return 139, "", "Segmentation fault\n"
        if words[1] == self.lost:
            return 0, "", ""
        if words[1] in OPTIONS:
            # As grdctl: what cannot be used is lost, and the command ends with 0.
            if words[2] in self.readable or words[2].isdecimal():
                self.told[OPTIONS[words[1]]] = words[2]
        elif words[1] == "set-credentials":
            assert data is not None
            assert binary_data, "run_command would add another line break"
            self.told |= {"Username": words[2], "Password": data.split("\n")[0]}
        elif words[1] == "clear-credentials":
            self.told = {name: value for name, value in self.told.items() if name not in ("Username", "Password")}
        else:
            self.told["Status"] = {"enable": "enabled", "disable": "disabled"}[words[1]]
        return 0, "", ""


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    found = Host()
    monkeypatch.setattr(pwd, "getpwnam", lambda _name: SimpleNamespace(pw_dir="/var/lib/gnome-remote-desktop"))
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(
        AnsibleModule,
        "run_command",
        lambda _self, command, data=None, binary_data=False: found.run(command, data, binary_data),
    )
    return found


@pytest.fixture
def configure(run_module: Run, host: Host) -> Run:
    def run(check: bool = False, **params: Any) -> dict[str, Any]:
        result = run_module(gnome_remote_desktop, check=check, **params)
        assert PASSWORD not in json.dumps(result, ensure_ascii=False).replace('\\"', '"')
        assert not any(PASSWORD in argument for argument in host.arguments)
        return result

    return run


def test_the_imitation_says_what_grdctl_said(configure: Run, host: Host) -> None:
    assert host.status() == (RECORDED / "fresh.txt").read_text()
    configure(**WANTED)
    recorded = (RECORDED / "running.txt").read_text().splitlines()
    assert [line for line in host.status().splitlines() if "fingerprint" not in line] == [
        line for line in recorded if "fingerprint" not in line
    ]


def test_a_fresh_daemon_is_configured_and_the_next_run_has_nothing_to_do(configure: Run, host: Host) -> None:
    first = configure(**WANTED)
    assert first["changes"] == [
        "port 3390",
        "certificate /etc/gnome-remote-desktop/tls/t.crt",
        "key /etc/gnome-remote-desktop/tls/t.key",
        "credential of remote",
        "RDP enabled",
    ]
    assert host.told["Password"] == PASSWORD
    assert first["settings"] == {name: value for name, value in WANTED.items() if name != "password"}
    host.written.clear()
    assert not configure(**WANTED)["changed"]
    assert host.written == []


def test_check_mode_tells_what_the_run_does_and_does_nothing(configure: Run, host: Host) -> None:
    told = configure(check=True, **WANTED)
    assert host.written == []
    done = configure(**WANTED)
    assert (told["changes"], told["settings"], told["diff"]) == (done["changes"], done["settings"], done["diff"])


def test_check_mode_waits_for_a_certificate_that_an_earlier_task_would_have_made(configure: Run, host: Host) -> None:
    host.readable.clear()
    assert configure(check=True, **WANTED)["changed"]


@pytest.mark.parametrize("name", ["certificate", "key"])
def test_a_file_that_the_daemon_cannot_read_is_refused_before_anything_changes(
    configure: Run, host: Host, name: str
) -> None:
    host.readable.remove(WANTED[name])
    result = configure(**WANTED)
    assert result["failed"]
    assert f"`{name}` is {WANTED[name]}, which is no file that gnome-remote-desktop can read" in result["msg"]
    assert host.written == []


def test_another_password_is_set_and_nothing_else(configure: Run, host: Host) -> None:
    configure(**WANTED)
    host.written.clear()
    result = configure(**{**WANTED, "password": "Oaks 2"})
    assert result["changes"] == ["credential of remote: another password"]
    assert host.written == ["rdp set-credentials remote"]
    assert host.told["Password"] == "Oaks 2"


def test_what_is_not_asked_for_is_left_as_it_is(configure: Run, host: Host) -> None:
    configure(**WANTED)
    assert not configure(user="remote", password=PASSWORD)["changed"]
    assert not configure()["changed"]
    assert host.told["Port"] == "3390"


def test_what_grdctl_lost_is_named(configure: Run, host: Host) -> None:
    host.lost = "set-port"
    result = configure(**WANTED)
    assert result["failed"]
    assert "grdctl did not keep port" in result["msg"]


def test_a_crash_is_told_with_where_to_look(configure: Run, host: Host) -> None:
    host.failing = "set-credentials"
    result = configure(**WANTED)
    assert result["failed"]
    assert "`grdctl rdp set-credentials remote` as gnome-remote-desktop ended with 139" in result["msg"]
    assert "journalctl" in result["msg"]
    assert "RDP enabled" not in host.written


def test_a_bad_request_is_refused_without_asking_grdctl(configure: Run, host: Host) -> None:
    result = configure(port=70000, user="remote")
    assert result["failed"]
    assert "`port` is 70000" in result["msg"]
    assert "`user` and `password` belong together" in result["msg"]
    assert host.arguments == []


def test_absent_leaves_a_daemon_that_was_never_told_anything(configure: Run, host: Host) -> None:
    configure(**WANTED)
    host.written.clear()
    told = configure(check=True, state="absent")
    assert host.written == []
    assert configure(state="absent")["changes"] == told["changes"]
    assert told["changes"] == ["RDP disabled", "credential cleared", "settings forgotten"]
    assert host.status() == (RECORDED / "fresh.txt").read_text()
    assert not configure(state="absent")["changed"]


def test_what_absent_cannot_remove_is_named(configure: Run, host: Host) -> None:
    configure(**WANTED)
    host.failing = "rm"
    result = configure(state="absent")
    assert result["failed"]
    assert "Remove /etc/gnome-remote-desktop/grd.conf and /var/lib/gnome-remote-desktop/.local" in result["msg"]


def test_a_port_alone_is_forgotten_too(configure: Run, host: Host) -> None:
    configure(port=3390)
    assert configure(state="absent")["changes"] == ["settings forgotten"]
    assert host.told["Port"] == "3389"


def test_users_whose_session_a_restart_would_end_are_named(configure: Run, host: Host) -> None:
    host.sessions = (RECORDED / "sessions.txt").read_text()
    assert configure()["sessions"] == ["alice"]


@pytest.mark.parametrize(("params", "changed"), [(WANTED, True), ({"state": "absent"}, False)])
def test_without_gnome_remote_desktop_check_mode_expects_the_package(
    configure: Run, monkeypatch: pytest.MonkeyPatch, params: dict[str, Any], changed: bool
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert configure(check=True, **params)["changed"] is changed


def test_without_gnome_remote_desktop_nothing_can_be_configured(
    configure: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    result = configure(**WANTED)
    assert result["failed"]
    assert "install the package gnome-remote-desktop" in result["msg"]
    assert not configure(state="absent")["changed"]

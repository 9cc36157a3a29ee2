# SPDX-License-Identifier: GPL-3.0-or-later
"""The module gnome_remote_desktop on a host with a fake grdctl that loses settings as grdctl 48 does."""

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

RECORDED = Path(__file__).parents[3] / "fixtures" / "grdctl"
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
    """A fake host for the commands of the module. ``readable``: the files that the daemon's account can read."""

    def __init__(self) -> None:
        self.settings = {"Status": "disabled", "Port": "3389"}
        self.readable = {WANTED["certificate"], WANTED["key"]}
        self.sessions = ""
        self.failing = self.lost = ""
        self.written: list[str] = []
        self.arguments: list[str] = []

    def status(self) -> str:
        names = ("Status", "Port", "TLS certificate", "TLS fingerprint", "TLS key", "Username", "Password")
        values = dict(self.settings)
        if "TLS certificate" in values:
            values["TLS fingerprint"] = ":".join(["2e"] * 32)
        active = "active" if self.settings["Status"] == "enabled" else "inactive"
        lines = "".join(f"\t{name}: {values.get(name, '(null)')}\n" for name in names)
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
                self.settings = {
                    name: value for name, value in self.settings.items() if name in ("Username", "Password")
                }
                self.settings |= {"Status": "disabled", "Port": "3389"}
            return int(self.failing == "rm"), "", "rm: cannot remove it" if self.failing == "rm" else ""
        arguments = command[command.index("grdctl") + 1 :]
        if arguments == ["status", "--show-credentials"]:
            return (
                0,
                self.status(),
                "Init TPM credentials failed because No TPM device found, using GKeyFile as fallback.\n",
            )
        self.written.append(" ".join(arguments))
        if arguments[1] == self.failing:
            return 139, "", "Segmentation fault\n"
        if arguments[1] == self.lost:
            return 0, "", ""
        if arguments[1] in OPTIONS:
            # As grdctl does: an unusable value is lost, and the command exits with 0.
            if arguments[2] in self.readable or arguments[2].isdecimal():
                self.settings[OPTIONS[arguments[1]]] = arguments[2]
        elif arguments[1] == "set-credentials":
            assert data is not None
            assert binary_data, "run_command would add another line break"
            self.settings |= {"Username": arguments[2], "Password": data.split("\n")[0]}
        elif arguments[1] == "clear-credentials":
            self.settings = {
                name: value for name, value in self.settings.items() if name not in ("Username", "Password")
            }
        else:
            self.settings["Status"] = {"enable": "enabled", "disable": "disabled"}[arguments[1]]
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


def test_the_fake_prints_the_same_as_grdctl(configure: Run, host: Host) -> None:
    assert host.status() == (RECORDED / "fresh.txt").read_text()
    configure(**WANTED)
    recorded = (RECORDED / "running.txt").read_text().splitlines()
    assert [line for line in host.status().splitlines() if "fingerprint" not in line] == [
        line for line in recorded if "fingerprint" not in line
    ]


def test_the_second_run_changes_nothing(configure: Run, host: Host) -> None:
    first = configure(**WANTED)
    assert first["changes"] == [
        "port 3390",
        "certificate /etc/gnome-remote-desktop/tls/t.crt",
        "key /etc/gnome-remote-desktop/tls/t.key",
        "credential of remote",
        "RDP enabled",
    ]
    assert host.settings["Password"] == PASSWORD
    assert first["settings"] == {name: value for name, value in WANTED.items() if name != "password"}
    host.written.clear()
    assert not configure(**WANTED)["changed"]
    assert host.written == []


def test_check_mode_reports_the_changes_of_the_run(configure: Run, host: Host) -> None:
    announced = configure(check=True, **WANTED)
    assert host.written == []
    done = configure(**WANTED)
    assert (announced["changes"], announced["settings"], announced["diff"]) == (
        done["changes"],
        done["settings"],
        done["diff"],
    )


def test_check_mode_accepts_a_missing_certificate(configure: Run, host: Host) -> None:
    host.readable.clear()
    assert configure(check=True, **WANTED)["changed"]


@pytest.mark.parametrize("name", ["certificate", "key"])
def test_an_unreadable_file_is_refused_before_any_change(configure: Run, host: Host, name: str) -> None:
    host.readable.remove(WANTED[name])
    result = configure(**WANTED)
    assert result["failed"]
    assert f"`{name}` is {WANTED[name]}, which is not a file that gnome-remote-desktop can read" in result["msg"]
    assert host.written == []


def test_another_password_is_the_only_change(configure: Run, host: Host) -> None:
    configure(**WANTED)
    host.written.clear()
    result = configure(**{**WANTED, "password": "Oaks 2"})
    assert result["changes"] == ["credential of remote: another password"]
    assert host.written == ["rdp set-credentials remote"]
    assert host.settings["Password"] == "Oaks 2"


def test_unset_options_keep_their_values(configure: Run, host: Host) -> None:
    configure(**WANTED)
    assert not configure(user="remote", password=PASSWORD)["changed"]
    assert not configure()["changed"]
    assert host.settings["Port"] == "3390"


def test_a_setting_that_grdctl_lost_is_named(configure: Run, host: Host) -> None:
    host.lost = "set-port"
    result = configure(**WANTED)
    assert result["failed"]
    assert "grdctl did not keep port" in result["msg"]


def test_a_crash_is_reported_with_a_remedy(configure: Run, host: Host) -> None:
    host.failing = "set-credentials"
    result = configure(**WANTED)
    assert result["failed"]
    assert "`grdctl rdp set-credentials remote` as gnome-remote-desktop ended with 139" in result["msg"]
    assert "journalctl" in result["msg"]
    assert "RDP enabled" not in host.written


def test_absent_leaves_a_daemon_without_settings(configure: Run, host: Host) -> None:
    configure(**WANTED)
    host.written.clear()
    announced = configure(check=True, state="absent")
    assert host.written == []
    assert configure(state="absent")["changes"] == announced["changes"]
    assert announced["changes"] == ["RDP disabled", "credential cleared", "settings removed"]
    assert host.status() == (RECORDED / "fresh.txt").read_text()
    assert not configure(state="absent")["changed"]


def test_files_that_absent_cannot_remove_are_named(configure: Run, host: Host) -> None:
    configure(**WANTED)
    host.failing = "rm"
    result = configure(state="absent")
    assert result["failed"]
    assert "Remove /etc/gnome-remote-desktop/grd.conf and /var/lib/gnome-remote-desktop/.local" in result["msg"]


def test_a_port_alone_is_removed_as_well(configure: Run, host: Host) -> None:
    configure(port=3390)
    assert configure(state="absent")["changes"] == ["settings removed"]
    assert host.settings["Port"] == "3389"


def test_users_with_sessions_are_returned(configure: Run, host: Host) -> None:
    host.sessions = (RECORDED / "sessions.txt").read_text()
    assert configure()["sessions"] == ["alice"]


@pytest.mark.parametrize(("params", "changed"), [(WANTED, True), ({"state": "absent"}, False)])
def test_check_mode_expects_the_package(
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

# SPDX-License-Identifier: GPL-3.0-or-later
"""Times, counts and addresses that fail2ban would not read are refused with the variable and the entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._system.fail2ban import (
    FORMER_NOTE,
    is_idle,
    is_note_due,
    overridden,
    problems,
    stronger,
)

REQUEST: Any = {
    "fail2ban_bantime": "1h",
    "fail2ban_findtime": "10m",
    "fail2ban_maxretry": 5,
    "fail2ban_ignoreip": [],
}


def refused(**options: Any) -> dict[str, str]:
    return {entry["variable"]: entry["problem"] for entry in problems("xrdp", REQUEST | options)}


@pytest.mark.parametrize(
    ("options", "variable", "why"),
    [
        ({"fail2ban_bantime": "soon"}, "xrdp_fail2ban_bantime", "'soon', which is not a time"),
        ({"fail2ban_findtime": "10 minutes"}, "xrdp_fail2ban_findtime", "'10 minutes', which is not a time"),
        ({"fail2ban_maxretry": 0}, "xrdp_fail2ban_maxretry", "is 0"),
        ({"fail2ban_ignoreip": ["192.0.2.9", "192.0.2.0/33"]}, "xrdp_fail2ban_ignoreip", "has '192.0.2.0/33', which"),
        ({"fail2ban_ignoreip": ["192.0.2.300"]}, "xrdp_fail2ban_ignoreip", "has '192.0.2.300', which"),
        ({"fail2ban_ignoreip": ["a\nb"]}, "xrdp_fail2ban_ignoreip", "which is no address"),
    ],
)
def test_a_wrong_entry_is_refused_and_named(options: Any, variable: str, why: str) -> None:
    assert why in refused(**options)[variable]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fail2ban_bantime": "-1", "fail2ban_findtime": "1d 12h"},
        {"fail2ban_ignoreip": ["192.0.2.9", "192.0.2.0/24", "2001:db8::/32", "laptop.example.org"]},
    ],
)
def test_options_that_fail2ban_reads_are_accepted(options: Any) -> None:
    assert refused(**options) == {}


def test_all_is_refused_at_once() -> None:
    options = {"fail2ban_bantime": "soon", "fail2ban_maxretry": 0, "fail2ban_ignoreip": ["/"]}
    assert {*refused(**options)} == {"xrdp_fail2ban_bantime", "xrdp_fail2ban_maxretry", "xrdp_fail2ban_ignoreip"}


@pytest.mark.parametrize(
    ("active", "at_boot", "idle"),
    [
        ("inactive", "", True),  # not installed
        ("inactive", "disabled", True),
        ("failed", "disabled", True),
        ("active", "disabled", False),
        ("inactive", "enabled", False),
    ],
)
def test_fail2ban_is_idle_if_stopped_and_disabled(active: str, at_boot: str, idle: bool) -> None:
    text = f"Id=fail2ban.service\nNames=fail2ban.service\nActiveState={active}\nUnitFileState={at_boot}\n"
    assert is_idle(lambda _command, **_options: (0, text, "")) is idle


def test_note_under_the_former_name_is_written_again(tmp_path: Path) -> None:
    def in_use(_command: list[str], **_options: Any) -> tuple[int, str, str]:
        return 0, "Id=fail2ban.service\nNames=fail2ban.service\nActiveState=active\nUnitFileState=enabled\n", ""

    assert is_note_due(in_use, Tree(str(tmp_path))) is False
    note = tmp_path / FORMER_NOTE.lstrip("/")
    note.parent.mkdir(parents=True)
    note.write_text("")
    assert is_note_due(in_use, Tree(str(tmp_path))) is True


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, []),
        (
            {"jail.local": "[DEFAULT]\nignoreip = 127.0.0.1/8 10.77.8.0/24, 192.0.2.9\n"},
            ["ignoreip = 10.77.8.0/24 (jail.local [DEFAULT])"],
        ),
        ({"jail.local": "[DEFAULT]\nignoreip = 10.0.0.1\n[sshd]\nignoreip = ::1\nbantime = 1h\n"}, []),
        (
            {"jail.d/a.conf": "[sshd]\nbantime = 1d\n", "jail.local": "[sshd]\nbantime = 2d\n"},
            ["bantime = 2d (jail.local [sshd])"],
        ),
        ({"jail.d/defaults-debian.conf": "[sshd]\nmaxretry = 9\n", "jail.conf": "[DEFAULT]\nbantime = 10m\n"}, []),
        ({"jail.d/rigwright.local": "[sshd]\nmaxretry = 9\n"}, []),
        ({"jail.local": "[sshd]\nbantime = 60m\nfindtime = 10 minutes\n"}, []),
        ({"jail.local": "[sshd]\nbantime = 3600\nfindtime = 9m 60s\n"}, []),
        (
            {"jail.local": "[sshd]\nbantime = -1\nfindtime = soon\n"},
            ["bantime = -1 (jail.local [sshd])", "findtime = soon (jail.local [sshd])"],
        ),
        ({"jail.local": "[sshd]\nbantime = 2d\n", "jail.d/zz.local": "[sshd]\nbantime = 3d\n"}, []),
        ({"jail.d/zz.local": "[DEFAULT]\nbantime = 3d\n"}, ["bantime = 3d (jail.d/zz.local [DEFAULT])"]),
        ({"jail.local": "[DEFAULT]\nfindtime = %(bantime)s\n[nginx]\nmaxretry = 9\n"}, []),
        ({"jail.local": "[sshd]\n[sshd]\nenabled = true\nmaxretry = 3 ; few\n"}, ["maxretry = 3 (jail.local [sshd])"]),
    ],
)
def test_what_a_jail_puts_out_of_force(tmp_path: Path, files: dict[str, str], found: list[str]) -> None:
    for name, text in files.items():
        path = tmp_path / "etc/fail2ban" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    own = "/etc/fail2ban/jail.d/rigwright.local"
    named = overridden(Tree(str(tmp_path)), "sshd", own, REQUEST | {"fail2ban_ignoreip": ["192.0.2.9"]})
    assert [line.replace("/etc/fail2ban/", "") for line in named] == found


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("zz.local", "[sshd]\nbantime = 3d\n", ["bantime = 3d (jail.d/zz.local [sshd])"]),
        ("zz.local", "[sshd]\nbantime = 60m\n", []),
        ("zz.local", "[DEFAULT]\nbantime = 3d\n", []),
        ("zz.local", "[sshd]\nignoreip = 10.0.0.1\n", ["ignoreip = 10.0.0.1 (jail.d/zz.local [sshd])"]),
        ("zz.local", "[sshd]\nignoreip = 10.0.0.1 192.0.2.9\n", []),
        ("aa.local", "[sshd]\nbantime = 3d\n", []),
        ("zz.conf", "[sshd]\nbantime = 3d\n", []),
    ],
)
def test_a_later_file_puts_the_values_of_the_role_out_of_force(
    tmp_path: Path, name: str, text: str, found: list[str]
) -> None:
    folder = tmp_path / "etc/fail2ban/jail.d"
    folder.mkdir(parents=True)
    (folder / name).write_text(text)
    own = "/etc/fail2ban/jail.d/rigwright.local"
    named = stronger(Tree(str(tmp_path)), "sshd", own, REQUEST | {"fail2ban_ignoreip": ["192.0.2.9"]})
    assert [line.replace("/etc/fail2ban/", "") for line in named] == found


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "etc/fail2ban/jail.local"
    path.parent.mkdir(parents=True)
    path.write_text("enabled = true\n")
    (text,) = overridden(Tree(str(tmp_path)), "sshd", "", REQUEST)
    assert text == "/etc/fail2ban/jail.local, which cannot be read: File contains no section headers (line 1)"
    path.write_text("[sshd]\nenabled = true\ncftoken hunter2\n")
    (text,) = overridden(Tree(str(tmp_path)), "sshd", "", REQUEST)
    assert text.endswith("(line 3)") and "hunter2" not in text

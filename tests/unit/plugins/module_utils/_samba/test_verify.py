# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings from what clients of Samba print."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.verify import Clients, findings

ANONYMOUS = "session setup failed: NT_STATUS_ACCESS_DENIED\n"
OLD = "protocol negotiation failed: NT_STATUS_CONNECTION_DISCONNECTED\n"
TESTPARM = "[global]\n\tworkgroup = LAB\n\n[Data]\n\tpath = /srv/data\n"
REQUEST: dict[str, Any] = {
    "port": 445,
    "min_protocol": "SMB3_11",
    "users": [
        {"name": "alice", "password": "correct-horse", "nt_hash": None, "state": "present", "enabled": True},
        {
            "name": "bob",
            "password": None,
            "nt_hash": "8846F7EAEE8FB117AD06BDD830B7586C",
            "state": "present",
            "enabled": True,
        },
        {"name": "carol", "password": "battery", "nt_hash": None, "state": "absent", "enabled": True},
    ],
    "shares": [{"name": "data"}],
    "discovery_unit": "wsdd2.service",
}


class FakeClients:
    """Commands with the secrets on their standard input, and what they print."""

    def __init__(self, **outputs: tuple[int, str, str]) -> None:
        self.outputs = {
            "anonymous": (1, ANONYMOUS, ""),
            "old": (1, OLD, ""),
            "alice": (0, "", ""),
            "bob": (0, "", ""),
            "testparm": (0, TESTPARM, "Load smb config files"),
            **outputs,
        }
        self.commands: list[tuple[list[str], str | None]] = []

    def __call__(self, command: list[str], data: str | None = None, **_options: Any) -> tuple[int, str, str]:
        self.commands.append((command, data))
        if command[0] == "testparm":
            return self.outputs["testparm"]
        user = next((part.partition("=")[2] for part in command if part.startswith("--user=")), "")
        old = any(part.startswith("--max-protocol=") for part in command)
        return self.outputs[user or ("old" if old else "anonymous")]


def statuses(clients: FakeClients, request: dict[str, Any] = REQUEST) -> dict[str, str]:
    return {row["id"]: row["status"] for row in Clients(clients, request).findings()}


def test_a_server_that_refuses_and_serves_as_it_should_passes() -> None:
    clients = FakeClients()
    assert set(statuses(clients).values()) == {"pass"}
    assert [data for _command, data in clients.commands if data] == ["correct-horse", REQUEST["users"][1]["nt_hash"]]
    assert not any("correct-horse" in part for command, _data in clients.commands for part in command)


@pytest.mark.parametrize(
    ("outputs", "identifier", "evidence"),
    [
        ({"anonymous": (0, "Sharename", "")}, "samba.anonymous", "gets the list of shares"),
        ({"anonymous": (1, "NT_STATUS_IO_TIMEOUT", "")}, "samba.anonymous", "no clear answer: NT_STATUS_IO_TIMEOUT"),
        ({"anonymous": (127, "", "smbclient: No such file")}, "samba.anonymous", "smbclient ended with 127"),
        ({"old": (1, "NT_STATUS_CONNECTION_REFUSED", "")}, "samba.old_protocols", "NT1, SMB3_02"),
        ({"old": (0, "Anonymous login successful", "")}, "samba.old_protocols", "not served as it should be"),
        ({"bob": (1, "NT_STATUS_LOGON_FAILURE", "")}, "samba.logins", "cannot log in: bob"),
        ({"testparm": (0, "[global]\n", "")}, "samba.shares", "not served: data"),
        ({"testparm": (1, TESTPARM, "")}, "samba.shares", "served: data"),
    ],
)
def test_each_difference_fails_with_its_evidence(outputs: dict[str, Any], identifier: str, evidence: str) -> None:
    (found,) = [row for row in Clients(FakeClients(**outputs), REQUEST).findings() if row["status"] != "pass"]
    assert (found["id"], found["status"]) == (identifier, "fail")
    assert evidence in found["evidence"]


def test_nobody_and_nothing_declared_is_skipped() -> None:
    found = statuses(FakeClients(), {**REQUEST, "users": [], "shares": []})
    assert (found["samba.logins"], found["samba.shares"]) == ("skip", "skip")


def test_sandboxing_is_checked_where_windows_is_served() -> None:
    clients = FakeClients()

    def run(command: list[str], **options: Any) -> tuple[int, str, str]:
        if command[0] == "systemd-analyze":
            return 0, "Overall exposure level for wsdd2.service: 1.7 OK", ""
        return clients(command, **options)

    rows = findings(run, REQUEST, {"windows": True, "findings": []})
    assert rows[-1]["id"] == "samba.confinement" and rows[-1]["status"] == "pass"

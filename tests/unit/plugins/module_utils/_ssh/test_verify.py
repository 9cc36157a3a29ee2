# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings from what the clients of sshd and fail2ban print."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh import verify

WARNING = "Warning: Permanently added '127.0.0.1' (ED25519) to the list of known hosts.\r\n"
BY_KEY = f"{WARNING}root@127.0.0.1: Permission denied (publickey).\r\n"
BY_BOTH = f"{WARNING}root@127.0.0.1: Permission denied (publickey,password,keyboard-interactive).\r\n"
BY_PASSWORD = f"{WARNING}root@127.0.0.1: Permission denied (password).\r\n"
CLOSED = "ssh: connect to host 127.0.0.1 port 22: Connection refused\r\n"
JAIL = """\
Status for the jail: sshd
|- Filter
|  |- Currently failed:\t1
|  |- Total failed:\t7
|  `- Journal matches:\t_SYSTEMD_UNIT=ssh.service _UID=0 + _COMM=sshd _UID=0
`- Actions
   |- Currently banned:\t2
   |- Total banned:\t3
   `- Banned IP list:\t192.0.2.9 192.0.2.10
"""
NO_JAIL = "2026-10-12 08:00:00,000 fail2ban [812]: ERROR   NOK: ('sshd',)\nSorry but the jail 'sshd' does not exist\n"
PLAN: Any = {"door": "::1", "ports_open": [2222, 22], "passwords_refused": True, "findings": [{"id": "ssh.ports"}]}


@pytest.mark.parametrize(
    ("error", "passwords_refused", "status", "shown"),
    [
        (BY_KEY, True, "pass", "publickey"),
        (BY_BOTH, False, "pass", "publickey, password, keyboard-interactive"),
        (BY_BOTH, True, "fail", "publickey, password, keyboard-interactive"),
        (BY_PASSWORD, False, "fail", "password"),
        (CLOSED, True, "fail", f"nothing, {CLOSED}"),
        ("ssh: No such file or directory", True, "fail", "nothing, ssh: No such file or directory"),
    ],
)
def test_methods_that_sshd_offers(error: str, passwords_refused: bool, status: str, shown: str) -> None:
    found = verify.ways_in(error, passwords_refused)
    assert (found["status"], found["evidence"]) == (status, f"sshd offers a client without credentials: {shown}")


@pytest.mark.parametrize(
    ("wanted", "outcome", "status", "shown"),
    [
        (False, (0, "", ""), "skip", "ssh_fail2ban is off"),
        (True, (0, JAIL, ""), "pass", "Total failed: 7, Currently banned: 2"),
        (True, (0, "Status\n", ""), "pass", "fail2ban prints no counts: Status\n"),
        (True, (255, "", NO_JAIL), "fail", NO_JAIL),
        (
            True,
            (127, "", "fail2ban-client: No such file or directory"),
            "fail",
            "fail2ban-client: No such file or directory",
        ),
        (True, (1, "", ""), "fail", "fail2ban-client ended with 1"),
    ],
)
def test_jail_of_fail2ban(wanted: bool, outcome: verify.Outcome, status: str, shown: str) -> None:
    found = verify.jail(wanted, outcome)
    assert (found["status"], found["evidence"]) == (status, shown)


@pytest.mark.parametrize(("wanted", "programs"), [(True, ["ssh", "fail2ban-client"]), (False, ["ssh"])])
def test_clients_run_after_the_plan(wanted: bool, programs: list[str]) -> None:
    outcomes = iter([(255, "", BY_KEY), (0, JAIL, "")])
    commands: list[list[str]] = []

    def run(command: list[str], **_options: Any) -> verify.Outcome:
        commands.append(command)
        return next(outcomes)

    request: Any = {"fail2ban": wanted}
    found = verify.findings(run, request, PLAN)

    assert [entry["id"] for entry in found] == ["ssh.ports", "ssh.ways_in", "ssh.fail2ban"]
    assert [command[0] for command in commands] == programs
    assert commands[0][-3:] == ["-p", "2222", "root@::1"]
    assert ("-o", "PreferredAuthentications=none") in itertools.pairwise(commands[0])

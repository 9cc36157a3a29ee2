# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings of the role ssh."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.config import Override
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.findings import findings
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.plan import Facts, Service, decide

from tests.unit.support.ssh import ANSWER, BY_SSH, FACTS, SSHD, asks, facts, request


def statuses(params: Any, found: Facts = FACTS, overrides: tuple[Override, ...] = ()) -> dict[str, str]:
    """Return the status of each finding by its id."""
    return {finding["id"]: finding["status"] for finding in findings(params, found, decide(params, found), overrides)}


def test_a_sshd_that_a_user_started_is_a_warning():
    assert statuses(request(), facts(foreign=[{**SSHD, "port": 2022, "pid": 99}]))["ssh.ports"] == "warn"
    assert statuses(request())["ssh.ports"] == "pass"


@pytest.mark.parametrize(
    ("params", "found", "finding", "status"),
    [
        ({}, {}, "ssh.passwords", "pass"),
        ({}, {"admins": []}, "ssh.passwords", "warn"),
        ({}, {"key_users": [], "passwords_accepted": False}, "ssh.passwords", "warn"),
        ({"passwords": "allowed"}, {}, "ssh.passwords", "warn"),
        ({}, {}, "ssh.authorized_keys", "pass"),
        ({}, {}, "ssh.access", "warn"),  # the guest, who has a password
        ({"passwords": "allowed"}, {}, "ssh.access", "pass"),
        ({}, {"users_now": ["owner"]}, "ssh.access", "pass"),
        ({}, {"unknown_users": ["carol"]}, "ssh.authorized_keys", "warn"),
        ({}, {}, "ssh.jail_overridden", "pass"),
        ({}, {"jail_overridden": ["ignoreip = 192.0.2.9 (jail.local [DEFAULT])"]}, "ssh.jail_overridden", "warn"),
        ({}, {}, "ssh.match", "pass"),
        ({}, {"unsure_blocks": ["passwordauthentication is yes"]}, "ssh.match", "warn"),
        ({}, {"jail_stronger": ["bantime = 3d (zz.local [sshd])"]}, "ssh.jail_overridden", "warn"),
        ({}, {"key_problems": ["alice: /home/alice is writable by others"]}, "ssh.authorized_keys", "warn"),
        ({"proof": "all"}, {"banners": {22: ANSWER}}, "ssh.banner", "pass"),
        ({"proof": "all"}, {"banners": {22: ""}}, "ssh.banner", "fail"),
        ({"proof": "all"}, {"connection": BY_SSH}, "ssh.login", "pass"),
        ({"proof": "all"}, {}, "ssh.login", "skip"),
    ],
)
def test_the_status_of_each_finding(params, found, finding, status):
    assert statuses(request(**params), facts(**found))[finding] == status


def test_before_a_change_the_configuration_is_not_rated():
    assert "ssh.configuration" not in statuses(request())


def test_the_port_of_ansibles_connection_is_a_warning():
    found = facts(connection=BY_SSH, banners={2222: ANSWER})
    assert statuses(request(ports=[2222]), found)["ssh.ports"] == "warn"


def test_a_port_that_does_not_close_is_a_failure():
    params, found = request(ports=[2222], proof="all"), facts(banners={2222: ANSWER})
    assert statuses(params, found)["ssh.ports"] == "fail"
    closed = facts(service=Service(active=True, pid=7, ports=(2222,)), banners={2222: ANSWER})
    assert statuses(params, closed)["ssh.ports"] == "pass"


def test_an_override_is_a_failure_of_the_configuration():
    override = Override("passwordauthentication", frozenset({"no"}), frozenset({"yes"}), (), ())
    assert statuses(request(proof="all"), FACTS, (override,))["ssh.configuration"] == "fail"
    assert statuses(request(proof="all"))["ssh.configuration"] == "pass"


@pytest.mark.parametrize(
    ("lines", "alone"),
    [
        ([asks("publickey,password")], ""),
        ([asks("publickey,password publickey,keyboard-interactive:pam")], ""),
        ([asks("publickey,publickey password")], "publickey,publickey password (/etc/ssh/sshd_config:9)"),
        (
            [asks("publickey,password"), asks("password", "User bob")],
            "password (/etc/ssh/sshd_config:9 below `Match User bob`)",
        ),
        ([asks("publickey,password"), asks("any", "User bob")], "any (/etc/ssh/sshd_config:9 below `Match User bob`)"),
    ],
)
def test_lines_that_let_somebody_in_without_a_key_are_named(lines, alone):
    host = facts(methods=lines)
    found = findings(request(), host, decide(request(), host), [])[0]
    assert found["status"] == ("warn" if alone else "pass")
    assert found["evidence"].partition("; no key is needed for ")[2] == alone


@pytest.mark.parametrize(
    ("passwords", "lines", "text"),
    [
        (
            "auto",
            [asks("gssapi-with-mic password")],
            "passwords are refused, but AuthenticationMethods asks for gssapi",
        ),
        ("auto", [asks("publickey,password")], "passwords are no longer refused: AuthenticationMethods asks for"),
        ("allowed", [asks("publickey,password")], "passwords stay allowed"),
    ],
)
def test_the_finding_says_what_becomes_of_refused_passwords(passwords, lines, text):
    params, host = request(passwords=passwords), facts(methods=lines, passwords_accepted=False)
    assert findings(params, host, decide(params, host), [])[0]["evidence"].startswith(text)

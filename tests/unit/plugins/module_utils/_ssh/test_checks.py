# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests for sshd that are refused on a host."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.checks import host_problems
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.config import MAIN_CONFIG, Line, Override
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.plan import DROP_IN, Facts, Service, decide
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.request import input_problems

from tests.unit.support.ssh import ANSWER, BY_SSH, BY_SSH_6, FACTS, PYTHON, SSHD, asks, facts, request


def refused(params: Any, found: Facts = FACTS) -> dict[str, str]:
    """Return the problems by variable."""
    problems = [*input_problems(params), *host_problems(params, found, decide(params, found), [], "")]
    return {problem["variable"]: problem["problem"] for problem in problems}


def test_a_wanted_port_without_answer_is_refused_once_open():
    params, silent = request(ports=[2222], proof="open"), facts(banners={2222: ""})
    assert refused(params, silent) == {"ssh_ports": "names a port on which no ssh server answers (2222)"}
    assert refused(request(ports=[2222]), silent) == {}
    assert refused(params, facts(banners={2222: ANSWER})) == {}


def test_a_port_that_does_not_close_is_refused():
    params, found = request(ports=[2222], proof="all"), facts(banners={2222: ANSWER})
    assert refused(params, found) == {"ssh_ports": "leaves out 22, where sshd still listens"}
    closed = facts(service=Service(active=True, pid=7, ports=(2222,)), banners={2222: ANSWER})
    assert refused(params, closed) == {}


@pytest.mark.parametrize(
    ("params", "found", "variable", "why"),
    [
        ({"ports": []}, {}, "ssh_ports", "1 to 65535"),
        ({"ports": [0, 22]}, {}, "ssh_ports", "1 to 65535"),
        ({"ports": [8022]}, {"listeners": [SSHD, PYTHON]}, "ssh_ports", "8022 python3"),
        ({"listen_addresses": ["lab.example"]}, {}, "ssh_listen_addresses", "IP addresses"),
        ({"listen_addresses": ["127.0.0.1"]}, {"connection": BY_SSH}, "ssh_listen_addresses", "192.0.2.7"),
        ({"listen_addresses": ["::"]}, {"connection": BY_SSH}, "ssh_listen_addresses", "192.0.2.7"),
        ({"listen_addresses": ["0.0.0.0"]}, {"connection": BY_SSH_6}, "ssh_listen_addresses", "2001:db8::7"),  # noqa: S104
        (
            {"listen_addresses": ["192.0.2.99"]},
            {"missing_addresses": ["192.0.2.99"]},
            "ssh_listen_addresses",
            "this host does not have: 192.0.2.99",
        ),
        (
            {"authorized_keys": [{"user": "../a", "keys": []}]},
            {},
            "ssh_authorized_keys",
            "'../a', which is not a user name",
        ),
        ({}, {"invalid_keys": ["owner, key 1: damaged"]}, "ssh_authorized_keys", "owner, key 1: damaged"),
        ({"passwords": "refused"}, {"admins": []}, "ssh_passwords", "nobody who can become root"),
        ({}, {"connection": BY_SSH._replace(user="eve")}, "ssh_passwords", "lock out eve"),
        (
            {},
            {"connection": BY_SSH, "key_users": [], "key_problems": ["bob: a", "owner: Permission denied"]},
            "ssh_passwords",
            "lock out owner, as whom Ansible is connected (owner: Permission denied)",
        ),
        ({}, {"connection": BY_SSH._replace(user="root")}, "ssh_permit_root_login", "lock out root"),
        (
            {"allow_groups": [{"name": "remote", "members": []}]},
            {"connection": BY_SSH, "key_users": ["guest"], "admins": ["guest", "owner"]},
            "ssh_allow_groups",
            "lock out owner",
        ),
        ({}, {"key_users": [], "password_users": []}, "ssh_permit_root_login", "now owner can"),
    ],
)
def test_a_request_is_refused_with_its_variable(params, found, variable, why):
    assert why in refused(request(**params), facts(**found))[variable]


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({}, {}),
        ({"ports": [22, 2222], "fail2ban_bantime": "-1", "fail2ban_findtime": "1d 12h"}, {}),
        ({"ports": [22]}, {"listeners": [SSHD, PYTHON]}),
        ({"listen_addresses": ["192.0.2.7", "2001:db8::7"]}, {"connection": BY_SSH}),
        ({"listen_addresses": ["0.0.0.0"]}, {"connection": BY_SSH}),  # noqa: S104
        ({"listen_addresses": ["2001:DB8::7"]}, {"connection": BY_SSH_6}),
        ({"listen_addresses": ["::"]}, {"connection": BY_SSH_6}),
        ({"authorized_keys": [{"user": "svc-a.b", "keys": []}]}, {}),
        ({"passwords": "refused"}, {"connection": BY_SSH}),
        ({"fail2ban_ignoreip": ["192.0.2.9", "192.0.2.0/24", "2001:db8::/32", "laptop.example.org"]}, {}),
        # The user is connected by password.
        ({"passwords": "auto"}, {"connection": BY_SSH._replace(user="guest")}),
    ],
)
def test_a_request_is_not_refused(params, found):
    assert refused(request(**params), facts(**found)) == {}


def test_all_problems_are_reported_at_once():
    params = request(ports=[0], passwords="refused", extra_options={"Port": 23})
    assert {*refused(params, facts(admins=[]))} == {"ssh_ports", "ssh_passwords", "ssh_extra_options"}


def test_an_override_is_refused_by_its_variable():
    line = Line("/etc/ssh/sshd_config", 9, "passwordauthentication", "yes")
    override = Override("passwordauthentication", frozenset({"no"}), frozenset({"yes"}), (), (line,))
    decision = decide(request(), FACTS)
    (problem,) = host_problems(request(), FACTS, decision, [override], "")
    assert problem["variable"] == "ssh_passwords"
    assert "(/etc/ssh/sshd_config:9)" in problem["problem"]


@pytest.mark.parametrize(
    ("complaint", "variable"),
    [
        (f"{DROP_IN}: line 20: Bad configuration option: PermitRotLogin", "ssh_extra_options"),
        ("/etc/ssh/sshd_config: line 3: Bad configuration option: Prot", "/etc/ssh/sshd_config"),
    ],
)
def test_an_error_of_sshd_is_part_of_the_problem(complaint, variable):
    (problem,) = host_problems(request(), FACTS, decide(request(), FACTS), [], complaint)
    assert problem["variable"] == variable
    assert complaint in problem["problem"]


UNSATISFIED = "AuthenticationMethods cannot be satisfied by enabled authentication methods"


@pytest.mark.parametrize(
    ("passwords", "lines", "refusal", "variables"),
    [
        # The host itself refuses codes.
        ("auto", [asks("publickey,keyboard-interactive")], UNSATISFIED, [MAIN_CONFIG]),
        ("refused", [asks("publickey,keyboard-interactive")], UNSATISFIED, ["ssh_passwords"]),
        ("refused", [asks("hostbased,publickey")], UNSATISFIED, [MAIN_CONFIG]),
        # The problem of a block does not say what sshd refuses.
        ("refused", [asks("hostbased"), asks("password", "User bob")], UNSATISFIED, ["ssh_passwords", MAIN_CONFIG]),
        (
            "refused",
            [asks("publickey,password")],
            'Unknown authentication method "key" in list: AuthenticationMethods',
            ["ssh_passwords", MAIN_CONFIG],
        ),
    ],
)
def test_a_refusal_of_sshd_is_left_out_where_the_role_says_it(passwords, lines, refusal, variables):
    params, host = request(passwords=passwords), facts(methods=lines)
    found = host_problems(params, host, decide(params, host), [], refusal)
    assert [row["variable"] for row in found] == variables

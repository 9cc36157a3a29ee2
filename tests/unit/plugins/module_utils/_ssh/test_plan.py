# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings, ports, files and units of sshd."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.config import DEFAULTS, Line, Override
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.plan import (
    SERVICE,
    SOCKET,
    Service,
    assumed,
    decide,
    directories,
    files,
    listen_streams,
    methods,
    overridden,
    surplus_ports,
    units,
    wanted_values,
    without_own_keys,
)

from tests.unit.support.ssh import ANSWER, BY_SSH, FACTS, ON_DEMAND, asks, facts, request


def test_the_request_becomes_lines_of_sshd_config():
    params = request(
        permit_root_login="prohibit-password",
        allow_tcp_forwarding="all",
        x11_forwarding=True,
        client_alive_interval=60,
        listen_addresses=["192.0.2.7"],
        allow_groups=[{"name": "remote", "members": []}],
        extra_options={"Banner": "/etc/issue.net", "AcceptEnv": ["LANG", "LC_*"], "UseDNS": False},
    )
    lines = decide(params, FACTS).drop_in
    assert {
        "PermitRootLogin prohibit-password",
        "AllowTcpForwarding yes",
        "X11Forwarding yes",
        "ClientAliveInterval 60",
        "Port 22",
        "ListenAddress 192.0.2.7",
        "AllowGroups remote",
        "AcceptEnv LC_*",
        "UseDNS no",
    } <= {*lines}
    # The user's own options come last and are not compared with the output of sshd, which spells them differently.
    assert lines[-4] == "Banner /etc/issue.net"
    assert "banner" not in wanted_values(decide(params, FACTS), FACTS.service, DEFAULTS)


def test_keys_that_the_host_has_elsewhere_stay_keys():
    lines = decide(request(), facts(key_files=["none", "/etc/keys/%u", ".ssh/authorized_keys"])).settings
    assert "AuthorizedKeysFile .ssh/authorized_keys /etc/ssh/authorized_keys.d/%u /etc/keys/%u" in lines


@pytest.mark.parametrize(
    ("passwords", "found", "line"),
    [
        ("auto", {}, "PasswordAuthentication no"),
        ("auto", {"connection": BY_SSH}, "PasswordAuthentication no"),
        ("auto", {"admins": []}, None),
        ("auto", {"connection": BY_SSH._replace(user="guest")}, None),
        # The key cannot be read now, and sshd refuses passwords already.
        ("auto", {"key_users": [], "passwords_accepted": False}, "PasswordAuthentication no"),
        ("refused", {}, "PasswordAuthentication no"),
        ("allowed", {}, "PasswordAuthentication yes"),
    ],
)
def test_auto_refuses_passwords_once_the_right_users_have_keys(passwords, found, line):
    lines = decide(request(passwords=passwords), facts(**found)).settings
    assert [entry for entry in lines if entry.startswith("PasswordAuthentication")] == ([line] if line else [])


def test_sshd_must_listen_only_on_the_requested_endpoints():
    everywhere = wanted_values(decide(request(), FACTS), FACTS.service, {"addressfamily": "any"})
    assert everywhere["listenaddress"] == {"0.0.0.0:22", "[::]:22"}
    without_ipv6 = wanted_values(decide(request(), FACTS), FACTS.service, {"addressfamily": "inet"})
    assert without_ipv6["listenaddress"] == {"0.0.0.0:22"}
    params = request(ports=[22, 2222], listen_addresses=["192.0.2.7"])
    several = wanted_values(decide(params, FACTS), FACTS.service, DEFAULTS)
    assert several["listenaddress"] == {"192.0.2.7:22", "192.0.2.7:2222"}


def test_with_a_socket_the_endpoints_of_sshd_do_not_count():
    assert "listenaddress" not in wanted_values(decide(request(), FACTS), ON_DEMAND, DEFAULTS)


def test_systemd_listens_on_ports_or_on_addresses_with_ports():
    assert listen_streams(request(), decide(request(ports=[22, 2222]), FACTS).ports) == ["22", "2222"]
    params = request(ports=[22], listen_addresses=["192.0.2.7", "::1"])
    assert listen_streams(params, decide(params, FACTS).ports) == ["192.0.2.7:22", "[::1]:22"]
    # The check of the request refuses this.
    assert listen_streams(request(listen_addresses=["lab.example"]), decide(request(), FACTS).ports) == ["22"]


def test_without_sshd_the_requested_settings_are_assumed():
    groups = [{"name": "remote", "members": ["owner"]}]
    planned = assumed(decide(request(allow_groups=groups), FACTS), {**DEFAULTS, "denyusers": ["eve"]})
    assert (planned["allowgroups"], planned["denyusers"], planned["permitrootlogin"]) == (["remote"], ["eve"], "no")


def test_the_file_of_the_roles_keys_is_not_read():
    config = {"authorizedkeysfile": ".ssh/authorized_keys /etc/ssh/authorized_keys.d/%u /etc/keys/%u"}
    assert without_own_keys(config)["authorizedkeysfile"] == ".ssh/authorized_keys /etc/keys/%u"


def test_files_are_keys_and_a_main_file_that_needs_the_include():
    params = request(authorized_keys=[{"user": "alice", "keys": ["ssh-ed25519 A", "ssh-ed25519 B"]}])
    key_file = {"path": "/etc/ssh/authorized_keys.d/alice", "content": "ssh-ed25519 A\nssh-ed25519 B\n"}
    assert files(params, FACTS) == [key_file]
    main = {"path": "/etc/ssh/sshd_config", "content": "Include x\n", "merged": True}
    assert files(params, facts(main_config="Include x\n", main_config_added=True)) == [key_file, main]


@pytest.mark.parametrize(
    ("service", "addresses", "units"),
    [
        (Service(), [], []),
        (Service(), ["192.0.2.7"], ["ssh.service.d"]),
        (ON_DEMAND, [], ["ssh.socket.d", "ssh.service.d"]),
    ],
)
def test_directories_for_drop_ins_depend_on_socket_and_addresses(service, addresses, units):
    found = [entry["path"] for entry in directories(request(listen_addresses=addresses), service)]
    assert found == ["/etc/ssh/authorized_keys.d", *(f"/etc/systemd/system/{unit}" for unit in units)]


@pytest.mark.parametrize(
    ("state", "service", "wanted"),
    [
        ("present", Service(), [{**SERVICE, "enabled": True}]),
        ("present", ON_DEMAND, [{**SOCKET, "enabled": True}, SERVICE]),
        ("present", dataclasses.replace(ON_DEMAND, socket_accept=True), [{**SOCKET, "enabled": True}]),
        ("absent", Service(), []),
        ("absent", Service(active=True), [SERVICE]),
        ("absent", ON_DEMAND, [{"name": "ssh.service", "state": "stopped"}, SOCKET]),
    ],
)
def test_the_units_are_those_that_hold_the_ports(state, service, wanted):
    assert units(request(state=state), service) == wanted


def test_a_port_in_use_stays_until_the_new_one_has_answered():
    params = request(ports=[2222])
    assert surplus_ports(params, FACTS.service, None) == (22,)
    # Not probed, or without an answer: a listening sshd alone proves nothing.
    listening = facts(service=dataclasses.replace(FACTS.service, ports=(22, 2222)), banners={2222: ""})
    for found in (FACTS, listening):
        assert decide(params, found).ports.open == (2222, 22)
    answered = dataclasses.replace(listening, banners={2222: ANSWER})
    assert decide(params, answered).ports.open == (2222,)


def test_the_port_of_ansibles_connection_always_stays():
    found = facts(connection=BY_SSH, banners={2222: ANSWER})
    assert surplus_ports(request(ports=[2222]), found.service, BY_SSH) == ()
    assert decide(request(ports=[2222]), found).ports.open == (2222, 22)


def test_with_a_socket_the_ports_of_systemd_are_those_in_use():
    assert surplus_ports(request(ports=[2222]), ON_DEMAND, None) == (22,)


MINE = "/etc/ssh/sshd_config.d/10-mine.conf"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (Line(MINE, 3, "x11forwarding", "yes"), True),
        (Line(MINE, 3, "banner", "/etc/motd"), True),  # ssh_extra_options sets it
        (Line(MINE, 3, "x11forwarding", "no"), False),
        (Line(MINE, 3, "x11forwarding", "yes", "User bob"), False),
        (Line(MINE, 3, "usedns", "yes"), False),
        (Line(MINE, 3, "port", "2222"), False),  # it accumulates, and another check refuses it
        (Line(MINE, 3, "authorizedkeysfile", ".ssh/authorized_keys"), False),
        (Line("/etc/ssh/sshd_config", 3, "x11forwarding", "yes"), False),
    ],
)
def test_a_line_of_another_drop_in_without_effect_is_named(line, named):
    decision = decide(request(extra_options={"Banner": "/etc/issue.net"}), FACTS)
    assert overridden(decision, [line], []) == ([line] if named else [])


def test_a_line_that_was_not_in_force_before_is_not_named():
    lines = [Line(MINE, 1, "x11forwarding", "no"), Line(MINE, 9, "x11forwarding", "yes")]
    assert overridden(decide(request(), FACTS), lines, []) == []


def test_a_line_that_wins_is_an_override_and_no_more():
    line = Line("/etc/ssh/sshd_config.d/00-a.conf", 1, "x11forwarding", "yes")
    override = Override("x11forwarding", frozenset({"no"}), frozenset({"yes"}), (), (line,))
    assert overridden(decide(request(), FACTS), [line], [override]) == []


@pytest.mark.parametrize("accepted", [True, False])
@pytest.mark.parametrize(
    ("lines", "enough"),
    [
        ([asks("gssapi-with-mic password")], False),
        ([asks("publickey,publickey password")], False),
        ([asks("publickey"), asks("hostbased,publickey password", "all")], False),
        ([asks("hostbased")], False),
        ([asks("password publickey")], True),
        ([asks("publickey"), asks("gssapi-with-mic", "User bob")], True),
        ([asks("any")], True),
    ],
)
def test_auto_refuses_passwords_only_where_one_key_is_enough(lines, enough, accepted):
    # What is refused stays refused.
    assert decide(request(), facts(methods=lines, passwords_accepted=accepted)).passwords_refused is (
        enough or not accepted
    )


def test_a_line_below_match_all_counts_as_the_first_one_does():
    first, second, everybody, again, bob = (
        Line("/etc/ssh/sshd_config", number, "authenticationmethods", "publickey", match)
        for number, match in enumerate(["", "", "all", "all", "User bob"])
    )
    assert methods([first, second, everybody, again, bob]) == [first, everybody, bob]

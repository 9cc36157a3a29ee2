# SPDX-License-Identifier: GPL-3.0-or-later
"""What sshd is told, which ports open and close, and what is refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.config import DEFAULTS, Line, Override
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.plan import (
    DROP_IN,
    SERVICE,
    SOCKET,
    Seen,
    Service,
    assumed,
    decide,
    directories,
    files,
    findings,
    host_faults,
    listen_streams,
    overridden,
    surplus_ports,
    units,
    wanted_values,
    without_own_keys,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.request import input_faults

REQUEST: dict[str, Any] = {
    "state": "present",
    "proof": "none",
    "ports": [22],
    "listen_addresses": [],
    "passwords": "auto",
    "permit_root_login": "no",
    "authorized_keys": [],
    "allow_groups": [],
    "allow_tcp_forwarding": "local",
    "allow_agent_forwarding": False,
    "x11_forwarding": False,
    "max_auth_tries": 4,
    "client_alive_interval": 120,
    "client_alive_count_max": 3,
    "log_level": "VERBOSE",
    "extra_options": {},
    "fail2ban_bantime": "1h",
    "fail2ban_findtime": "10m",
    "fail2ban_maxretry": 5,
    "fail2ban_ignoreip": [],
}
SSHD = {"protocol": "tcp", "address": "::", "port": 22, "process": "sshd", "pid": 7, "unit": "ssh.service"}
PYTHON = {**SSHD, "port": 8022, "process": "python3", "pid": 9, "unit": None}
BY_SSH = {"user": "owner", "client": "192.0.2.9", "address": "192.0.2.7", "port": 22}
BY_SSH_6 = {**BY_SSH, "address": "2001:db8::7"}
ANSWER = "SSH-2.0-OpenSSH_9.2p1"

# An administrator with a key and a guest with a password; sshd listens on 22, and Ansible was started on the machine itself.
SEEN = Seen(
    service=Service(active=True, pid=7, ports=(22,)),
    listeners=[SSHD],
    connection=None,
    passwords_asked=True,
    now=["guest", "owner"],
    key_users=["owner"],
    password_users=["guest"],
    admins=["owner"],
    key_problems=[],
    invalid_keys=[],
    unknown_users=[],
    main_config="",
    main_config_added=False,
)
ON_DEMAND = Service(active=True, pid=7, socket_active=True, socket_ports=(22,))


def request(**asked: Any) -> dict[str, Any]:
    return {**REQUEST, **asked}


def seen(**found: Any) -> Seen:
    return dataclasses.replace(SEEN, **found)


def refused(asked: dict[str, Any], found: Seen = SEEN) -> dict[str, str]:
    """What is refused, by variable."""
    faults = [*input_faults(asked), *host_faults(asked, found, decide(asked, found), [], "")]
    return {fault["variable"]: fault["problem"] for fault in faults}


def found_by(asked: dict[str, Any], found: Seen = SEEN, overrides: tuple[Override, ...] = ()) -> dict[str, str]:
    """The findings: `{id: status}`."""
    return {finding["id"]: finding["status"] for finding in findings(asked, found, decide(asked, found), overrides)}


# --- What sshd is told ---


def test_the_request_becomes_lines_of_sshd_config():
    asked = request(
        permit_root_login="prohibit-password",
        allow_tcp_forwarding="all",
        x11_forwarding=True,
        client_alive_interval=60,
        listen_addresses=["192.0.2.7"],
        allow_groups=[{"name": "remote", "members": []}],
        extra_options={"Banner": "/etc/issue.net", "AcceptEnv": ["LANG", "LC_*"], "UseDNS": False},
    )
    lines = decide(asked, SEEN).drop_in
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
    # What the user adds comes last, and is not held against sshd's own words: those spell it otherwise.
    assert lines[-4] == "Banner /etc/issue.net"
    assert "banner" not in wanted_values(decide(asked, SEEN), SEEN.service, DEFAULTS)


def test_keys_that_the_host_has_elsewhere_stay_keys():
    lines = decide(request(), seen(key_files=["none", "/etc/keys/%u", ".ssh/authorized_keys"])).settings
    assert "AuthorizedKeysFile .ssh/authorized_keys /etc/ssh/authorized_keys.d/%u /etc/keys/%u" in lines


@pytest.mark.parametrize(
    ("passwords", "found", "line"),
    [
        ("auto", {}, "PasswordAuthentication no"),
        ("auto", {"connection": BY_SSH}, "PasswordAuthentication no"),
        ("auto", {"admins": []}, None),
        ("auto", {"connection": {**BY_SSH, "user": "guest"}}, None),
        # The key cannot be read today; in force is that passwords are refused.
        ("auto", {"key_users": [], "passwords_asked": False}, "PasswordAuthentication no"),
        ("refused", {}, "PasswordAuthentication no"),
        ("allowed", {}, "PasswordAuthentication yes"),
    ],
)
def test_passwords_go_once_an_administrator_and_whoever_is_connected_have_a_key(passwords, found, line):
    lines = decide(request(passwords=passwords), seen(**found)).settings
    assert [one for one in lines if one.startswith("PasswordAuthentication")] == ([line] if line else [])


def test_sshd_must_listen_where_it_is_asked_and_nowhere_else():
    everywhere = wanted_values(decide(request(), SEEN), SEEN.service, {"addressfamily": "any"})
    assert everywhere["listenaddress"] == {"0.0.0.0:22", "[::]:22"}
    without_ipv6 = wanted_values(decide(request(), SEEN), SEEN.service, {"addressfamily": "inet"})
    assert without_ipv6["listenaddress"] == {"0.0.0.0:22"}
    asked = request(ports=[22, 2222], listen_addresses=["192.0.2.7"])
    one = wanted_values(decide(asked, SEEN), SEEN.service, DEFAULTS)
    assert one["listenaddress"] == {"192.0.2.7:22", "192.0.2.7:2222"}


def test_of_a_socket_the_words_of_sshd_on_ports_do_not_count():
    assert "listenaddress" not in wanted_values(decide(request(), SEEN), ON_DEMAND, DEFAULTS)


def test_systemd_listens_on_ports_or_on_addresses_with_ports():
    assert listen_streams(request(), decide(request(ports=[22, 2222]), SEEN).ports) == ["22", "2222"]
    asked = request(ports=[22], listen_addresses=["192.0.2.7", "::1"])
    assert listen_streams(asked, decide(asked, SEEN).ports) == ["192.0.2.7:22", "[::1]:22"]
    # Refused elsewhere, with the variable.
    assert listen_streams(request(listen_addresses=["lab.example"]), decide(request(), SEEN).ports) == ["22"]


def test_where_sshd_cannot_be_asked_it_is_assumed_to_do_as_it_is_told():
    groups = [{"name": "remote", "members": ["owner"]}]
    planned = assumed(decide(request(allow_groups=groups), SEEN), {**DEFAULTS, "denyusers": ["eve"]})
    assert (planned["allowgroups"], planned["denyusers"], planned["permitrootlogin"]) == (["remote"], ["eve"], "no")


def test_the_keys_of_the_role_are_known_and_not_read():
    config = {"authorizedkeysfile": ".ssh/authorized_keys /etc/ssh/authorized_keys.d/%u /etc/keys/%u"}
    assert without_own_keys(config)["authorizedkeysfile"] == ".ssh/authorized_keys /etc/keys/%u"


# --- Files and units ---


def test_keys_lie_in_files_of_root_and_the_main_file_only_where_it_needs_the_include():
    asked = request(authorized_keys=[{"user": "alice", "keys": ["ssh-ed25519 A", "ssh-ed25519 B"]}])
    key_file = {"path": "/etc/ssh/authorized_keys.d/alice", "content": "ssh-ed25519 A\nssh-ed25519 B\n"}
    assert files(asked, SEEN) == [key_file]
    main = {"path": "/etc/ssh/sshd_config", "content": "Include x\n"}
    assert files(asked, seen(main_config="Include x\n", main_config_added=True)) == [key_file, main]


@pytest.mark.parametrize(
    ("service", "addresses", "units"),
    [
        (Service(), [], []),
        (Service(), ["192.0.2.7"], ["ssh.service.d"]),
        (ON_DEMAND, [], ["ssh.socket.d", "ssh.service.d"]),
    ],
)
def test_a_socket_and_a_sshd_that_waits_for_its_address_need_folders_for_drop_ins(service, addresses, units):
    found = [one["path"] for one in directories(request(listen_addresses=addresses), service)]
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


# --- Ports ---


def test_a_port_in_use_stays_until_the_new_one_has_answered():
    asked = request(ports=[2222])
    assert surplus_ports(asked, SEEN.service, None) == (22,)
    # Not asked, or silent: that sshd listens there already proves nothing.
    listening = seen(service=dataclasses.replace(SEEN.service, ports=(22, 2222)), banners={2222: ""})
    for found in (SEEN, listening):
        assert decide(asked, found).ports.open == (2222, 22)
    answered = dataclasses.replace(listening, banners={2222: ANSWER})
    assert decide(asked, answered).ports.open == (2222,)


def test_the_port_by_which_ansible_came_stays_in_any_case():
    found = seen(connection=BY_SSH, banners={2222: ANSWER})
    assert surplus_ports(request(ports=[2222]), found.service, BY_SSH) == ()
    assert decide(request(ports=[2222]), found).ports.open == (2222, 22)
    assert found_by(request(ports=[2222]), found)["ssh.ports"] == "warn"


def test_with_a_socket_the_ports_of_systemd_are_those_in_use():
    assert surplus_ports(request(ports=[2222]), ON_DEMAND, None) == (22,)


def test_a_wanted_port_that_does_not_answer_is_refused_once_it_was_opened():
    asked, silent = request(ports=[2222], proof="open"), seen(banners={2222: ""})
    assert refused(asked, silent) == {"ssh_ports": "names a port on which no ssh server answers (2222)"}
    assert refused(request(ports=[2222]), silent) == {}
    assert refused(asked, seen(banners={2222: ANSWER})) == {}


def test_a_port_that_does_not_close_is_refused_and_found():
    asked, found = request(ports=[2222], proof="all"), seen(banners={2222: ANSWER})
    assert refused(asked, found) == {"ssh_ports": "leaves out 22, where sshd listens all the same"}
    assert found_by(asked, found)["ssh.ports"] == "fail"
    closed = seen(service=Service(active=True, pid=7, ports=(2222,)), banners={2222: ANSWER})
    assert refused(asked, closed) == {}
    assert found_by(asked, closed)["ssh.ports"] == "pass"


def test_a_sshd_that_somebody_started_by_hand_is_found():
    assert found_by(request(), seen(foreign=[{**SSHD, "port": 2022, "pid": 99}]))["ssh.ports"] == "warn"
    assert found_by(request())["ssh.ports"] == "pass"


# --- What is refused ---


@pytest.mark.parametrize(
    ("asked", "found", "variable", "why"),
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
            "no address of this host: 192.0.2.99",
        ),
        (
            {"authorized_keys": [{"user": "../a", "keys": []}]},
            {},
            "ssh_authorized_keys",
            "'../a', which is no user name",
        ),
        ({}, {"invalid_keys": ["owner, key 1: damaged"]}, "ssh_authorized_keys", "owner, key 1: damaged"),
        ({"passwords": "refused"}, {"admins": []}, "ssh_passwords", "nobody who can become root"),
        ({}, {"connection": {**BY_SSH, "user": "eve"}}, "ssh_passwords", "lock out eve"),
        (
            {},
            {"connection": BY_SSH, "key_users": [], "key_problems": ["bob: a", "owner: Permission denied"]},
            "ssh_passwords",
            "lock out owner, as whom Ansible is connected (owner: Permission denied)",
        ),
        ({}, {"connection": {**BY_SSH, "user": "root"}}, "ssh_permit_root_login", "lock out root"),
        (
            {"allow_groups": [{"name": "remote", "members": []}]},
            {"connection": BY_SSH, "key_users": ["guest"], "admins": ["guest", "owner"]},
            "ssh_allow_groups",
            "lock out owner",
        ),
        ({}, {"key_users": [], "password_users": []}, "ssh_permit_root_login", "now owner can"),
    ],
)
def test_a_request_is_refused_with_its_variable(asked, found, variable, why):
    assert why in refused(request(**asked), seen(**found))[variable]


@pytest.mark.parametrize(
    ("asked", "found"),
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
        # By password, as he came.
        ({"passwords": "auto"}, {"connection": {**BY_SSH, "user": "guest"}}),
    ],
)
def test_a_request_is_not_refused(asked, found):
    assert refused(request(**asked), seen(**found)) == {}


def test_every_fault_is_told_at_once():
    asked = request(ports=[0], passwords="refused", extra_options={"Port": 23})
    assert {*refused(asked, seen(admins=[]))} == {"ssh_ports", "ssh_passwords", "ssh_extra_options"}


def test_what_another_file_overrides_is_refused_by_the_variable_that_would_not_hold():
    line = Line("/etc/ssh/sshd_config", 9, "passwordauthentication", "yes")
    override = Override("passwordauthentication", frozenset({"no"}), frozenset({"yes"}), (), (line,))
    decision = decide(request(), SEEN)
    (fault,) = host_faults(request(), SEEN, decision, [override], "")
    assert fault["variable"] == "ssh_passwords"
    assert "(/etc/ssh/sshd_config:9)" in fault["problem"]
    assert found_by(request(proof="all"), SEEN, (override,))["ssh.configuration"] == "fail"
    assert found_by(request(proof="all"))["ssh.configuration"] == "pass"


@pytest.mark.parametrize(
    ("complaint", "variable"),
    [
        (f"{DROP_IN}: line 20: Bad configuration option: PermitRotLogin", "ssh_extra_options"),
        ("/etc/ssh/sshd_config: line 3: Bad configuration option: Prot", "/etc/ssh/sshd_config"),
    ],
)
def test_a_configuration_that_sshd_refuses_is_refused_in_its_words(complaint, variable):
    (fault,) = host_faults(request(), SEEN, decide(request(), SEEN), [], complaint)
    assert fault["variable"] == variable
    assert complaint in fault["problem"]


# --- What is left to do ---


@pytest.mark.parametrize(
    ("asked", "found", "finding", "status"),
    [
        ({}, {}, "ssh.passwords", "pass"),
        ({}, {"admins": []}, "ssh.passwords", "warn"),
        ({}, {"key_users": [], "passwords_asked": False}, "ssh.passwords", "warn"),
        ({"passwords": "allowed"}, {}, "ssh.passwords", "warn"),
        ({}, {}, "ssh.authorized_keys", "pass"),
        ({}, {}, "ssh.access", "warn"),  # the guest, who has a password
        ({"passwords": "allowed"}, {}, "ssh.access", "pass"),
        ({}, {"now": ["owner"]}, "ssh.access", "pass"),
        ({}, {"unknown_users": ["carol"]}, "ssh.authorized_keys", "warn"),
        ({}, {"key_problems": ["alice: /home/alice is writable by others"]}, "ssh.authorized_keys", "warn"),
        ({"proof": "all"}, {"banners": {22: ANSWER}}, "ssh.banner", "pass"),
        ({"proof": "all"}, {"banners": {22: ""}}, "ssh.banner", "fail"),
        ({"proof": "all"}, {"connection": BY_SSH}, "ssh.login", "pass"),
        ({"proof": "all"}, {}, "ssh.login", "skip"),
    ],
)
def test_findings_say_what_is_left_to_do(asked, found, finding, status):
    assert found_by(request(**asked), seen(**found))[finding] == status


MINE = "/etc/ssh/sshd_config.d/10-mine.conf"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (Line(MINE, 3, "x11forwarding", "yes"), True),
        (Line(MINE, 3, "banner", "/etc/motd"), True),  # ssh_extra_options sets it
        (Line(MINE, 3, "x11forwarding", "no"), False),
        (Line(MINE, 3, "x11forwarding", "yes", "User bob"), False),
        (Line(MINE, 3, "usedns", "yes"), False),
        (Line(MINE, 3, "port", "2222"), False),  # it adds up, and is refused elsewhere
        (Line(MINE, 3, "authorizedkeysfile", ".ssh/authorized_keys"), False),
        (Line("/etc/ssh/sshd_config", 3, "x11forwarding", "yes"), False),
    ],
)
def test_a_line_of_another_drop_in_that_has_no_effect_is_named(line, named):
    decision = decide(request(extra_options={"Banner": "/etc/issue.net"}), SEEN)
    assert overridden(decision, [line], []) == ([line] if named else [])


def test_a_line_that_was_not_in_force_before_is_not_named():
    lines = [Line(MINE, 1, "x11forwarding", "no"), Line(MINE, 9, "x11forwarding", "yes")]
    assert overridden(decide(request(), SEEN), lines, []) == []


def test_a_line_that_wins_is_an_override_and_no_more():
    line = Line("/etc/ssh/sshd_config.d/00-a.conf", 1, "x11forwarding", "yes")
    override = Override("x11forwarding", frozenset({"no"}), frozenset({"yes"}), (), (line,))
    assert overridden(decide(request(), SEEN), [line], [override]) == []


def test_before_a_change_nothing_counts_as_proven():
    assert "ssh.configuration" not in found_by(request())

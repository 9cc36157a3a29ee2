# SPDX-License-Identifier: GPL-3.0-or-later
"""Problems of a request for a firewall, and its findings."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.checks import (
    Host,
    findings,
    in_force,
    must_load,
    opened_by,
    requirements,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.table import Request, text

LAN = ["192.168.1.0/24"]
SSH = {"client": "192.168.1.7", "port": 22}
TABLE = [{"table": {"name": "rigwright"}}]
WELL = Host(text=text(Request()), trial=TABLE, in_force=TABLE)


def listener(port, protocol="tcp", address="::", process="python3", unit="x.service"):
    return {"protocol": protocol, "address": address, "port": port, "process": process, "pid": 1, "unit": unit}


def unmet(request, **host):
    found = requirements(request, dataclasses.replace(WELL, **host))
    assert not any(row["ok"] for row in found)
    return [f"{row['variable']} {row['problem']}: {row['remedy']}" for row in found]


def warnings(**host):
    found = {row["id"].removeprefix("firewall."): row for row in findings(dataclasses.replace(WELL, **host))}
    return {name: row["evidence"] for name, row in found.items() if row["status"] == "warn"}


# --- Lockouts ---


@pytest.mark.parametrize(
    ("request_", "host"),
    [
        (Request(), {}),
        (Request(), {"connection": SSH}),
        (Request(ssh_networks=LAN), {"connection": SSH}),
        (Request(ssh_networks=LAN), {"connection": {"client": "::ffff:192.168.1.7", "port": 22}}),
        (Request(ssh_networks=[]), {"connection": {"client": "127.0.0.1", "port": 22}}),  # through the tunnel of frp
        (Request(ssh_networks=[]), {}),  # ansible_connection: local
        (Request(ssh_ports=[2200]), {"connection": {**SSH, "port": 2200}}),
        (Request(ssh_networks=[], allow=[{"port": "20-30", "networks": LAN}]), {"connection": SSH}),
        (Request(ssh_networks=[], allow=[{"port": [22, "8000-8010"], "networks": LAN}]), {"connection": SSH}),
        (
            Request(allow=[{"port": [80, 2200], "networks": LAN}]),
            {"listeners": [listener(2200, process="sshd", unit="ssh.service")]},
        ),
        (Request(), {"listeners": [listener(22, process="sshd", unit="ssh.service")]}),
        (Request(), {"listeners": [listener(6010, address="127.0.0.1", process="sshd", unit="ssh.service")]}),
        (Request(), {"listeners": [listener(8080, process="sshd", unit="session-1.scope")]}),  # ssh -R
    ],
)
def test_an_allowed_connection_is_not_refused(request_, host):
    assert unmet(request_, **host) == []


@pytest.mark.parametrize(
    ("request_", "host", "problem"),
    [
        (
            Request(ssh_networks=["10.0.0.0/8"]),
            {"connection": SSH},
            "firewall_ssh_networks would lock out Ansible's own connection, from 192.168.1.7 to port 22: "
            "add 192.168.1.7/32, or the network that contains it",
        ),
        (
            Request(ssh_networks=[]),
            {"connection": {"client": "fe80::7%eth0", "port": 22}},
            "firewall_ssh_networks would lock out Ansible's own connection, from fe80::7 to port 22: "
            "add fe80::7/128, or the network that contains it",
        ),
        (
            Request(),
            {"connection": {**SSH, "port": 2200}},
            "firewall_ssh_ports would lock out Ansible's own connection, from 192.168.1.7 to port 2200: add port 2200",
        ),
        (
            Request(ssh_networks=[], allow=[{"port": 22, "networks": LAN, "protocol": "udp"}]),
            {"connection": SSH},
            "firewall_ssh_networks would lock out Ansible's own connection, from 192.168.1.7 to port 22: "
            "add 192.168.1.7/32, or the network that contains it",
        ),
        (
            Request(),
            {"listeners": [listener(2200, process="sshd", unit="ssh.service")]},
            "firewall_ssh_ports would close port 2200, on which sshd listens and which its files do not name: "
            "add 2200, or stop that sshd",
        ),
    ],
)
def test_a_lockout_is_refused_with_a_remedy(request_, host, problem):
    assert unmet(request_, **host) == [problem]


@pytest.mark.parametrize(
    ("host", "text"),
    [
        (
            {"no_kernel": "Operation not supported"},
            "firewall_state is impossible here: nft prints Operation not supported",
        ),
        ({"refusal": "/etc/nftables.d/rigwright/x.nft:1:1-3: Error: syntax error"}, "rigwright/x.nft:1:1-3"),
        ({"outside": ["br-lan (eth0)"]}, "firewall_bridges would let in every host behind br-lan (eth0)"),
    ],
)
def test_an_impossible_firewall_is_refused(host, text):
    (problem,) = unmet(Request(), **host)
    assert text in problem


def test_an_invalid_request_is_the_only_problem():
    (problem,) = unmet(Request(ssh_networks=["office"]), connection=SSH)
    assert problem.startswith("firewall_ssh_networks is not right: the network 'office'")


# --- Whether it has to be loaded ---


@pytest.mark.parametrize(
    "host",
    [
        {"trial": None},
        {"in_force": []},
        {"in_force": [{"table": {"name": "rigwright"}}, {"rule": {}}]},
        {"unconfirmed": True},
        {"program_is_current": False},
        {"confirmed_is_current": False},
    ],
)
def test_other_rules_are_in_force(host):
    assert must_load(dataclasses.replace(WELL, **host))
    assert in_force(dataclasses.replace(WELL, **host))["status"] == "fail"


def test_the_rules_of_the_files_are_in_force():
    assert not must_load(WELL)
    assert in_force(WELL)["status"] == "pass"
    assert in_force(dataclasses.replace(WELL, units_are_up=False))["status"] == "fail"
    assert "syntax" in in_force(dataclasses.replace(WELL, trial=None, refusal="syntax error"))["evidence"]


# --- Findings ---


def test_a_configured_host_has_no_warnings():
    assert warnings() == {}


@pytest.mark.parametrize(
    "row",
    [
        listener(22, process="sshd"),
        listener(9000, address="127.0.0.1"),
        listener(9000, address="::1"),
        listener(40000, protocol="udp"),  # the port of a client
        listener(68, protocol="udp"),  # DHCP
        listener(53, address="172.17.0.1"),  # for containers
    ],
)
def test_listeners_without_a_declaration_that_are_fine(row):
    request = text(Request()).replace('include "/run/rigwright-firewall/ssh.nft"', "tcp dport 22 jump ssh")
    assert "undeclared" not in warnings(text=request, listeners=[row], own_addresses=["172.17.0.1"])


def test_an_undeclared_listener_is_named():
    rows = [listener(9000), listener(9000, address="::"), listener(631, process=None), listener(5353, "udp")]
    assert warnings(listeners=rows)["undeclared"] == (
        "listens, and no other host can reach it: tcp 631 (unknown), udp 5353 (python3), tcp 9000 (python3)"
    )


def test_local_names_of_the_distribution_need_no_declaration():
    resolved = {"process": "systemd-resolve", "unit": "systemd-resolved.service"}
    rows = [listener(5355, **resolved), listener(5355, "udp", **resolved)]
    found = {row["id"]: row for row in findings(dataclasses.replace(WELL, listeners=rows))}["firewall.undeclared"]
    assert found["status"] == "pass"
    assert found["evidence"].endswith("the distribution's own: tcp 5355 (systemd-resolve), udp 5355 (systemd-resolve)")
    # The unit counts, not the name that a program gives itself.
    assert "undeclared" in warnings(listeners=[listener(5355, process="systemd-resolve", unit="user@1000.service")])


def test_a_declared_port_without_listener_is_named():
    rows = [{"port": port, "networks": LAN} for port in (445, 8000, "6000-6010")]
    assert warnings(text=text(Request(allow=rows)), listeners=[listener(8000)]) == {
        "unused": "open, and nothing listens there: tcp 445"
    }


def test_other_firewalls_and_lost_docker_rules_are_named():
    assert "ufw and firewalld" in warnings(others=["ufw", "firewalld"])["others"]
    assert "docker" in warnings(docker_lost=True)


def test_the_ports_of_a_file_with_other_formatting():
    written = """
    chain declared {
        # tcp dport 1 accept
        ip saddr 10.0.0.0/8 tcp dport { 80, 443, 6000-6010 } counter accept
        udp dport 53 drop
        tcp dport ssh accept
    }
    chain published {
        tcp dport 2 accept
    }
    """
    assert opened_by(written) == {"tcp": [(80, 80), (443, 443), (6000, 6010)], "udp": []}

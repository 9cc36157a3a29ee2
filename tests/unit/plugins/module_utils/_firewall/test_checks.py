# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests for a firewall that are refused on a host."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.checks import requirements
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.table import Request
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.access import Login

from tests.unit.support.firewall import CONFIGURED, LAN, listener

SSH = Login(1000, "192.168.1.7", "192.168.1.2", 22)


def unmet(request, **host):
    found = requirements(request, dataclasses.replace(CONFIGURED, **host))
    assert not any(row["ok"] for row in found)
    return [f"{row['variable']} {row['problem']}: {row['remedy']}" for row in found]


@pytest.mark.parametrize(
    ("request_", "host"),
    [
        (Request(), {}),
        (Request(), {"connection": SSH}),
        (Request(ssh_networks=LAN), {"connection": SSH}),
        (Request(ssh_networks=LAN), {"connection": SSH._replace(client="::ffff:192.168.1.7")}),
        (Request(ssh_networks=[]), {"connection": SSH._replace(client="127.0.0.1")}),  # through the tunnel of frp
        (Request(ssh_networks=[]), {}),  # ansible_connection: local
        (Request(ssh_ports=[2200]), {"connection": SSH._replace(port=2200)}),
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
            {"connection": SSH._replace(client="fe80::7%eth0")},
            "firewall_ssh_networks would lock out Ansible's own connection, from fe80::7 to port 22: "
            "add fe80::7/128, or the network that contains it",
        ),
        (
            Request(),
            {"connection": SSH._replace(port=2200)},
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

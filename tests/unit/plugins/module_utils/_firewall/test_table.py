# SPDX-License-Identifier: GPL-3.0-or-later
"""The table as a file for nftables."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.table import (
    Request,
    problems,
    ssh_text,
    text,
)

LAN = ["192.168.1.0/24"]


def chain(rules: str, name: str) -> list[str]:
    """Return the rules of a chain, without comments."""
    body = rules.split(f"\tchain {name} {{\n")[1].split("\n\t}\n")[0]
    return [line.strip() for line in body.splitlines() if not line.strip().startswith("#")]


def test_loading_replaces_only_this_table():
    lines = [line for line in text(Request()).splitlines() if line and not line.startswith(("#", "\t"))]
    assert lines == ["table inet rigwright", "delete table inet rigwright", "table inet rigwright {", "}"]
    assert "flush" not in text(Request())


def test_other_packets_are_dropped():
    rules = chain(text(Request()), "input")
    assert rules[0] == "type filter hook input priority filter; policy drop;"
    assert rules[1:3] == ['iifname "lo" accept', "ct state established,related accept"]
    assert rules[-1] == 'counter comment "dropped: nobody declares it"'


def test_an_older_connection_is_accepted_by_its_socket():
    # An ACK alone: a SYN, which opens a connection, needs a declaration.
    (rule,) = set(chain(text(Request()), "input")) - set(chain(text(Request(), older=False), "input"))
    assert rule.startswith("ct state new tcp flags & (fin | syn | rst | ack) == ack socket wildcard 0 accept")


def test_ssh_comes_before_declarations():
    # A declaration that drops packets cannot close ssh.
    rules = chain(text(Request(ssh_ports=[2200])), "input")
    assert rules.index('include "/run/rigwright-firewall/ssh.nft"') < rules.index("jump declared")
    assert rules.index("tcp dport 2200 jump ssh") < rules.index("jump declared")


@pytest.mark.parametrize(
    ("networks", "rules"),
    [
        (["0.0.0.0/0", "::/0"], ['accept comment "ssh"']),
        (LAN, ['ip saddr 192.168.1.0/24 accept comment "ssh"']),
        (["10.0.0.0/8", "10.1.0.0/16"], ['ip saddr 10.0.0.0/8 accept comment "ssh"']),
        ([], []),
    ],
)
def test_the_networks_of_ssh(networks, rules):
    assert chain(text(Request(ssh_networks=networks)), "ssh") == rules


def test_firewall_allow_comes_before_declarations():
    allow: Any = [{"port": "6000-6010", "protocol": "udp", "networks": LAN, "comment": "streams"}]
    assert chain(text(Request(allow=allow)), "declared") == [
        'ip saddr 192.168.1.0/24 udp dport 6000-6010 accept comment "streams"',
        'include "/etc/nftables.d/rigwright/*.nft"',
    ]


def test_a_published_port_has_a_rule_in_both_chains():
    rules = text(Request(containers=[{"port": 8080, "networks": LAN}]))
    rule = 'ip saddr 192.168.1.0/24 {} 8080 accept comment "firewall_containers"'
    assert chain(rules, "published")[0] == rule.format("meta l4proto tcp ct original proto-dst")
    assert rule.format("tcp dport") in chain(rules, "input")


def test_other_published_ports_are_closed():
    rules = text(Request(bridges=["docker0", "br-*"]))
    assert chain(rules, "forward") == [
        "type filter hook forward priority filter; policy accept;",
        "ct state established,related accept",
        'iifname "docker0" accept',
        'iifname "br-*" accept',
        "ct status dnat jump published",
        'oifname "docker0" jump published',
        'oifname "br-*" jump published',
    ]
    assert chain(rules, "published") == ['counter drop comment "containers: nobody is let in"']


def test_without_bridges_loopback_is_the_only_interface():
    rules = text(Request(bridges=[]))
    assert [line.strip() for line in rules.splitlines() if "ifname" in line] == ['iifname "lo" accept']


def test_containers_can_be_limited_to_dns_and_dhcp():
    assert 'iifname "docker0" accept' in chain(text(Request(bridges=["docker0"])), "input")
    limited = chain(text(Request(bridges=["docker0"], bridges_reach_host=False)), "input")
    assert 'iifname "docker0" accept' not in limited
    assert 'iifname "docker0" udp dport { 53, 67, 547 } accept comment "names and addresses"' in limited


def test_dropped_packets_are_logged_on_request():
    for name in ("input", "published"):
        assert not any(" log " in rule for rule in chain(text(Request()), name))
        assert " log " in chain(text(Request(log=True)), name)[-2]


def test_ports_of_sshd():
    assert ssh_text([22]) == "tcp dport 22 jump ssh\n"
    assert ssh_text([2222, 22]) == "tcp dport { 22, 2222 } jump ssh\n"


@pytest.mark.parametrize(
    ("changes", "variable", "error"),
    [
        ({"ssh_networks": ["office"]}, "firewall_ssh_networks", "'office' must be like"),
        ({"ssh_ports": [0]}, "firewall_ssh_ports", "between 1 and 65535"),
        ({"allow": [{"port": 0, "networks": LAN}]}, "firewall_allow", "between 1 and 65535"),
        ({"allow": [{"port": 80}]}, "firewall_allow", "must have port and networks"),
        ({"allow": [{"port": 80, "networks": LAN, "from": 1}]}, "firewall_allow", "must have port and networks"),
        ({"allow": [{"port": 80, "networks": ["192.168.1.7/24"]}]}, "firewall_allow", "has host bits set"),
        ({"allow": [{"port": 80, "networks": LAN, "comment": 'a"b'}]}, "firewall_allow", "must be a short name"),
        ({"containers": [{"port": 80, "networks": LAN, "protocol": "icmp"}]}, "firewall_containers", "tcp or udp"),
        ({"bridges": ["*"]}, "firewall_bridges", "name of an interface"),
        ({"bridges": ['br" accept']}, "firewall_bridges", "name of an interface"),
        ({"bridges": ["a-name-longer-than-15"]}, "firewall_bridges", "name of an interface"),
    ],
)
def test_an_error_names_its_variable(changes, variable, error):
    ((where, problem),) = problems(Request(**changes))
    assert where.partition("[")[0] == variable
    assert error in problem


def test_every_error_names_its_row():
    rows: Any = [
        {"port": 80, "networks": LAN},
        {"port": 0, "networks": ["office", "192.168.1.7/24"]},
        {"port": 80, "networks": "10.0.0.0/8"},
    ]
    found = problems(Request(ssh_networks=["home", "work"], allow=rows, bridges=["*"]))
    assert [where for where, _problem in found] == [
        "firewall_ssh_networks",
        "firewall_ssh_networks",
        "firewall_allow[1]",
        "firewall_allow[1]",
        "firewall_allow[1]",
        "firewall_allow[2]",
        "firewall_bridges",
    ]


def test_a_valid_request_has_no_errors():
    row: Any = {"port": 80, "networks": [], "protocol": None, "comment": None}
    assert problems(Request(allow=[row])) == []

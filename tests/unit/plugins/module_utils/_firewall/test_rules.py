# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of nftables that open ports to networks."""

from __future__ import annotations

import itertools
import random

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.rules import (
    fragment,
    merged,
    parse_network,
    parse_port,
    parse_ports,
)

LAN = ["192.168.1.0/24"]
EVERYBODY = ["0.0.0.0/0", "::/0"]


def tcp(*ports):
    return [{"port": port, "protocol": "tcp"} for port in ports]


def rules(ports, networks):
    return [line for line in fragment(ports, networks, "x").splitlines() if not line.startswith("#")]


@pytest.mark.parametrize(
    ("ports", "networks", "wanted"),
    [
        (tcp(445), LAN, ["ip saddr 192.168.1.0/24 tcp dport 445"]),
        (tcp("445"), LAN, ["ip saddr 192.168.1.0/24 tcp dport 445"]),
        (tcp("6000-6010"), LAN, ["ip saddr 192.168.1.0/24 tcp dport 6000-6010"]),
        (tcp([5357, 445]), LAN, ["ip saddr 192.168.1.0/24 tcp dport { 445, 5357 }"]),
        (tcp([]), LAN, []),
        (tcp(5357, 445), LAN, ["ip saddr 192.168.1.0/24 tcp dport { 445, 5357 }"]),
        (tcp(445), ["192.168.1.7"], ["ip saddr 192.168.1.7/32 tcp dport 445"]),
        (tcp(445), ["10.0.0.0/8", *LAN], ["ip saddr { 10.0.0.0/8, 192.168.1.0/24 } tcp dport 445"]),
        (tcp(445), ["fd00::/64"], ["ip6 saddr fd00::/64 tcp dport 445"]),
        (tcp(445), EVERYBODY, ["tcp dport 445"]),
        (tcp(445), [*EVERYBODY, *LAN], ["tcp dport 445"]),
        (tcp(445), ["0.0.0.0/0"], ["meta nfproto ipv4 tcp dport 445"]),
        (tcp(445), ["::/0", *LAN], ["ip saddr 192.168.1.0/24 tcp dport 445", "meta nfproto ipv6 tcp dport 445"]),
        ([{"port": 3702, "protocol": "udp"}], EVERYBODY, ["udp dport 3702"]),
        ([{"port": 53, "protocol": "udp"}, *tcp(53)], EVERYBODY, ["tcp dport 53", "udp dport 53"]),
        ([], LAN, []),
        (tcp(445), [], []),
    ],
)
def test_rules(ports, networks, wanted):
    assert rules(ports, networks) == [f'{line} accept comment "x"' for line in wanted]


def test_overlapping_networks_are_joined():
    networks = ["10.1.0.0/16", "10.0.0.0/8", "10.0.0.0/8", "192.168.0.0/24", "192.168.1.0/24"]
    assert rules(tcp(445), networks) == [
        'ip saddr { 10.0.0.0/8, 192.168.0.0/23 } tcp dport 445 accept comment "x"',
    ]


def test_overlapping_ports_are_joined():
    assert merged([(6005, 6020), (445, 445), (6000, 6010), (445, 445), (6021, 6021)]) == [(445, 445), (6000, 6021)]


def test_merging_keeps_every_port_and_adds_none():
    generator = random.Random(7)  # noqa: S311
    for _round in range(500):
        ranges = [(first, first + generator.randrange(5)) for first in generator.choices(range(1, 60), k=8)]
        joined = merged(ranges)
        assert {port for first, last in joined for port in range(first, last + 1)} == {
            port for first, last in ranges for port in range(first, last + 1)
        }
        assert all(before[1] + 1 < after[0] for before, after in itertools.pairwise(joined))


def test_the_order_of_the_request_does_not_matter():
    ports = [*tcp(445, 139, "6000-6010"), {"port": 137, "protocol": "udp"}]
    networks = ["10.0.0.0/8", "192.168.1.0/24", "fd00::/64", "fd01::/64"]
    assert fragment(ports, networks, "x") == fragment(ports[::-1], networks[::-1], "x")


@pytest.mark.parametrize("port", [0, 65536, -1, True, None, "", "http", "10-5", "1-", "1:5", "445 ", 445.0, "٤٤٥"])
def test_an_invalid_port(port):
    with pytest.raises(ValueError, match="the port .* must"):
        parse_port(port)


@pytest.mark.parametrize(
    "rows", ["445", {"port": 445}, [445], [{"port": 445}], [{"port": 1, "protocol": "tcp", "networks": []}], None]
)
def test_an_invalid_list_of_ports(rows):
    with pytest.raises(ValueError, match="port and protocol"):
        parse_ports(rows)


@pytest.mark.parametrize("protocol", ["sctp", "TCP", "", None])
def test_an_invalid_protocol(protocol):
    with pytest.raises(ValueError, match="must be tcp or udp"):
        parse_ports([{"port": 445, "protocol": protocol}])


@pytest.mark.parametrize(
    "network", ["office", "", "10.0.0.0/33", "10.0.0/8", "fe80::1%eth0", " 10.0.0.0/8", 24, None, True]
)
def test_an_invalid_network(network):
    with pytest.raises(ValueError, match="the network .* must be"):
        parse_network(network)


@pytest.mark.parametrize(("network", "meant"), [("192.168.1.7/24", "192.168.1.0/24"), ("fd00::1/64", "fd00::/64")])
def test_host_bits_are_refused_with_the_right_network(network, meant):
    with pytest.raises(ValueError, match=f"has host bits set: write {meant}"):
        parse_network(network)


@pytest.mark.parametrize("networks", ["10.0.0.0/8", None, {"10.0.0.0/8": 1}])
def test_an_invalid_list_of_networks(networks):
    with pytest.raises(ValueError, match="networks must be a list"):
        fragment(tcp(445), networks, "x")


@pytest.mark.parametrize("service", ['a" accept', "two\nlines", "", "x" * 101, "back\\slash", None, "}"])
def test_an_invalid_name_of_a_service(service):
    with pytest.raises(ValueError, match="the service .* must be a short name"):
        fragment(tcp(445), LAN, service)

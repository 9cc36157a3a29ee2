# SPDX-License-Identifier: GPL-3.0-or-later
"""Other tables that drop, and bridges that lead outside. Listings of other people's hosts are in tests/world/firewall."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import bridges, others

BASE = {"family": "inet", "table": "mine", "name": "in", "type": "filter", "hook": "input", "prio": 0}
NAMED = ["table inet mine (chain in)"]
PORT = {"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 22}}
NOT_LO = {"match": {"op": "!=", "left": {"meta": {"key": "iifname"}}, "right": "lo"}}
FROM_CARD = {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "eth0"}}
NEW = {"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["new", "untracked"]}}
INVALID = {"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": "invalid"}}
COUNTER = {"counter": {"packets": 0, "bytes": 0}}


def named(*rules: list[dict[str, Any]], more: tuple[dict[str, Any], ...] = (), **chain: Any) -> list[str]:
    rows = [
        {"metainfo": {"json_schema_version": 1}},
        {"chain": {**BASE, "policy": "accept", **chain}},
        *({"rule": {"family": "inet", "table": "mine", "chain": "in", "expr": rule}} for rule in rules),
        *more,
    ]
    return others.dropping(json.dumps({"nftables": rows}))


@pytest.mark.parametrize(
    ("rules", "drops"),
    [
        ([], False),
        ([[{"drop": None}]], True),
        ([[PORT, {"accept": None}], [COUNTER, {"reject": {"type": "icmpx"}}]], True),
        ([[NOT_LO, {"drop": None}]], True),
        ([[NEW, {"drop": None}]], True),
        ([[INVALID, {"drop": None}]], False),
        ([[PORT, {"drop": None}]], False),
        ([[FROM_CARD, {"drop": None}]], False),
        ([[{"accept": None}], [{"drop": None}]], False),
        ([[COUNTER]], False),
        ([[{"log": {"prefix": "x"}}], [{"xt": None}]], True),
        ([[{"xt": {"type": "target", "name": "LOG"}}]], False),
        ([[{"jump": {"target": "in"}}]], False),
    ],
)
def test_chain_that_drops_the_rest_is_named(rules: list[list[dict[str, Any]]], drops: bool) -> None:
    assert named(*rules) == (NAMED if drops else [])


@pytest.mark.parametrize(
    ("chain", "drops"),
    [
        ({"policy": "drop"}, True),
        ({"policy": "drop", "hook": "prerouting"}, True),
        ({"policy": "drop", "hook": "forward"}, False),
        ({"policy": "drop", "hook": "output"}, False),
        ({"policy": "drop", "type": "nat"}, False),
        ({"policy": "drop", "table": "rigwright"}, False),
    ],
)
def test_policy_of_a_chain_on_the_way_in_counts(chain: dict[str, Any], drops: bool) -> None:
    assert bool(named(**chain)) is drops


@pytest.mark.parametrize("listing", ["", "{}", "table inet filter {"])
def test_listing_of_another_form_is_an_error(listing: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        others.dropping(listing)


@pytest.mark.parametrize(
    ("listing", "drops"),
    [
        ("-P INPUT ACCEPT\n", False),
        ("-P INPUT DROP\n-A INPUT -i lo -j ACCEPT\n", True),
        ("-P INPUT ACCEPT\n-A INPUT -j REJECT --reject-with icmp-host-prohibited\n", True),
        ("-P INPUT ACCEPT\n-A INPUT -p tcp -m tcp --dport 25 -j DROP\n", False),
    ],
)
def test_rules_of_the_older_interface(listing: str, drops: bool) -> None:
    assert others.old_iptables_drop(listing) is drops


# --- Bridges ---


def link(name: str, kind: str = "", master: str = "", **more: Any) -> dict[str, Any]:
    found = {"ifname": name, "link_type": "ether", "linkinfo": {"info_kind": kind} if kind else {}, **more}
    return {**found, "master": master} if master else found


@pytest.mark.parametrize("kind", ["", "bond", "vlan", "vxlan", "wireguard", "something-new"])
def test_port_of_any_other_kind_leads_outside(kind: str) -> None:
    links = bridges.parse(json.dumps([link("br-a", "bridge"), link("port0", kind, "br-a"), {}]))
    assert bridges.outside(links, ["br-a"]) == ["br-a (port0)"]


@pytest.mark.parametrize("kind", ["veth", "tun", "dummy"])
def test_port_of_a_container_or_machine_stays_inside(kind: str) -> None:
    links = bridges.parse(json.dumps([link("br-a", "bridge"), link("port0", kind, "br-a", link="gone")]))
    assert (bridges.outside(links, ["br-a"]), bridges.unknown(links, ["br-a"])) == ([], [])


def test_pair_to_another_bridge_is_followed() -> None:
    pair = [link("a", "veth", "br-a", link="b"), link("b", "veth", "br0", link="a"), link("eth0", "", "br0")]
    links = bridges.parse(json.dumps([link("br-a", "bridge"), link("br0", "bridge"), *pair]))
    assert bridges.outside(links, ["br-a"]) == ["br-a (eth0)"]
    assert bridges.outside(bridges.parse(json.dumps([link("br-a", "bridge"), *pair[:2]])), ["br-a"]) == []


def test_bridge_without_ports_is_known_by_its_name_alone() -> None:
    names = ["docker0", "br-0123456789ab", "podman1", "virbr0", "br-lan", "br-0123456789abc"]
    links = bridges.parse(json.dumps([link(name, "bridge") for name in names]))
    assert bridges.unknown(links, names) == ["br-lan", "br-0123456789abc"]
    assert bridges.outside(links, names) == []


def test_interface_that_is_no_bridge() -> None:
    links = bridges.parse(json.dumps([link("eth0"), link("bond0", "bond"), link("wg0", "wireguard", link_type="none")]))
    assert bridges.outside(links, [*links]) == ["eth0 (eth0)", "bond0 (bond0)"]

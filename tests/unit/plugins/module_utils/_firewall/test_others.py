# SPDX-License-Identifier: GPL-3.0-or-later
"""Other tables that drop. Listings of other people's hosts are in tests/world/firewall."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import others

BASE = {"family": "inet", "table": "mine", "name": "in", "type": "filter", "hook": "input", "prio": 0}
NAMED = ["table inet mine (chain in)"]
PORT = {"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 22}}
NOT_LO = {"match": {"op": "!=", "left": {"meta": {"key": "iifname"}}, "right": "lo"}}
FROM_CARD = {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "eth0"}}
NEW = {"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["new", "untracked"]}}
INVALID = {"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": "invalid"}}
COUNTER = {"counter": {"packets": 0, "bytes": 0}}


def meta(key: str, right: Any) -> dict[str, Any]:
    return {"match": {"op": "==", "left": {"meta": {"key": key}}, "right": right}}


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
        # A match or target of iptables that this nft cannot show may be anything.
        ([[{"log": {"prefix": "x"}}], [{"xt": None}]], False),
        ([[{"xt": {"type": "target", "name": "REJECT"}}]], True),
        ([[{"limit": {"rate": 100, "per": "second", "inv": True}}, {"drop": None}]], False),
        ([[{"quota": {"val": 1, "val_unit": "mbytes", "inv": True}}, {"drop": None}]], False),
        ([[meta("pkttype", "broadcast"), {"drop": None}]], False),
        ([[meta("nfproto", "ipv6"), {"drop": None}]], False),
        ([[meta("nfproto", "ipv4"), {"drop": None}]], True),
        ([[meta("l4proto", "icmpv6"), {"drop": None}]], False),
        ([[meta("l4proto", {"set": ["tcp", "udp"]}), {"drop": None}]], True),
        ([[meta("l4proto", "ipv6-icmp"), {"accept": None}], [{"drop": None}]], True),
        ([[{"xt": {"type": "target", "name": "LOG"}}]], False),
        ([[{"jump": {"target": "in"}}]], False),
        (
            [[{"match": {**NEW["match"], "op": "!=", "right": {"set": ["established", "related"]}}}, {"drop": None}]],
            True,
        ),
        ([[meta("l4proto", "udp"), {"accept": None}], [{"drop": None}]], True),
        ([[{"xt": {"type": "match", "name": "comment"}}, {"drop": None}]], True),
        ([[{"xt": {"type": "match", "name": "conntrack"}}, {"drop": None}]], False),
        ([[{"vmap": {"key": {"meta": {"key": "protocol"}}, "data": {"set": [["ip", {"drop": None}]]}}}]], True),
        ([[{"vmap": {"key": {"meta": {"key": "iifname"}}, "data": {"set": [["wt0", {"drop": None}]]}}}]], False),
        ([[{"vmap": {"key": {"ct": {"key": "state"}}, "data": {"set": [["invalid", {"drop": None}]]}}}]], False),
        ([[{"vmap": {"key": {"meta": {"key": "protocol"}}, "data": "@names"}}]], False),
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
        ("-P INPUT ACCEPT\n-A INPUT ! -i lo -p tcp -j REJECT --reject-with tcp-reset\n", True),
        ("-P INPUT ACCEPT\n-A INPUT ! -p tcp -j DROP\n", False),
        ("-P INPUT ACCEPT\n-A INPUT -m conntrack ! --ctstate RELATED,ESTABLISHED -j DROP\n", True),
        ("-P INPUT ACCEPT\n-A INPUT -m limit --limit 5/min -j DROP\n", False),
        ('-P INPUT ACCEPT\n-A INPUT -m comment --comment "it\'s -j ACCEPT" -j DROP\n', True),
        ('-P INPUT ACCEPT\n-A INPUT -m comment --comment "open\n-A INPUT -j DROP\n', True),
    ],
)
def test_rules_of_iptables(listing: str, drops: bool) -> None:
    assert others.iptables_drop(listing) is drops


def test_what_a_card_brings_is_everything() -> None:
    listing = "-P INPUT ACCEPT\n-A INPUT -i enp+ -j DROP\n"
    assert others.iptables_drop(listing, ["enp3s0"])
    assert not others.iptables_drop(listing, ["wt0"])


def test_a_chain_that_two_rules_lead_to_is_read_for_each() -> None:
    listing = "-A INPUT -p tcp -j ALL\n-A INPUT -j ALL\n-A INPUT -j DROP\n-A ALL -j ACCEPT\n"
    assert not others.iptables_drop(listing)


@pytest.mark.parametrize(("chain", "families"), [("deep", ["ip"]), ("FORWARD", [])])
def test_families_whose_rules_nft_shows_in_part(chain: str, families: list[str]) -> None:
    rules: list[dict[str, Any]] = [
        {"chain": "deep", "expr": []},
        {"chain": "INPUT", "expr": [COUNTER, {"jump": {"target": "near"}}]},
        {"chain": "near", "expr": [{"goto": {"target": "deep"}}]},
        {"chain": chain, "expr": [{"xt": {"type": "match", "name": "addrtype"}}, {"drop": None}]},
    ]
    rows = [{"rule": {"family": "ip", "table": "filter", **rule}} for rule in rules]
    assert others.of_iptables(json.dumps({"nftables": rows})) == families

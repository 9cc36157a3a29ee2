# SPDX-License-Identifier: GPL-3.0-or-later
"""Bridges that lead to other machines, and those that nobody knows. Those of other people's hosts are in tests/world/firewall."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import bridges


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

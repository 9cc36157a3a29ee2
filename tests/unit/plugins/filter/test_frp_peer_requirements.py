# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests of a client, compared with the inventory's variables of the other ends."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.filter.frp_peer_requirements import frp_peer_requirements
from ansible_collections.rigwright.workstation.plugins.filter.frp_tunnels import frp_tunnels

OFFERED: dict[str, list[dict[str, Any]]] = {"tower": [{"name": "ssh"}, {"name": "web", "local_port": 80}], "idle": []}


def refused(
    services: list[dict[str, Any]], visitors: list[dict[str, Any]], allow_ports: list[dict[str, int]] | None = None
) -> list[str]:
    requirements = frp_peer_requirements(frp_tunnels(services, visitors), OFFERED, "gateway", allow_ports)
    return [
        f"{requirement['variable']} {requirement['problem']}" for requirement in requirements if not requirement["ok"]
    ]


def visit(user: str, name: str) -> dict[str, Any]:
    return {"server_user": user, "server_name": name, "bind_port": 6022}


def public(port: int) -> dict[str, Any]:
    return {"name": "web", "local_port": 80, "remote_port": port}


def test_a_service_that_the_other_client_offers():
    assert refused([], [visit("tower", "ssh"), visit("tower", "web")]) == []


def test_service_that_is_not_offered_is_refused():
    assert refused([], [visit("tower", "shh"), visit("idle", "ssh")]) == [
        "frp_client_visitors asks for shh of tower, which offers ssh, web; ssh of idle, which offers nothing"
    ]


def test_a_client_that_is_not_known_is_left_to_verify():
    assert refused([], [visit("elsewhere", "ssh")]) == []


@pytest.mark.parametrize("port", [6000, 6005, 6010])
def test_a_port_that_the_server_allows(port):
    assert refused([public(port)], [], [{"start": 22, "end": 22}, {"start": 6000, "end": 6010}]) == []


@pytest.mark.parametrize("allow_ports", [[], [{"start": 6000, "end": 6010}]])
def test_a_port_that_it_does_not_allow_is_refused(allow_ports):
    assert refused([public(6011)], [], allow_ports) == [
        "frp_client_services asks for public port 6011 for web, which gateway does not allow"
    ]


def test_unknown_server_and_private_service_are_accepted():
    assert refused([public(6011)], [], None) == []
    assert refused([{"name": "ssh", "local_port": 22}], [], []) == []

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: frp_peer_requirements
short_description: Refuse tunnels that their other end is known not to carry
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Compares what a frp client asks for with what the inventory knows of its server and of the other clients, as requirements for
    M(rigwright.workstation.require).
  - A visitor must name a service that its client offers, and a public port must be one that the server allows.
  - What is not known is not refused. The role's C(tasks/verify.yml) then proves it end to end.
positional: _input, offered, server, allow_ports
options:
  _input:
    description: Proxies and visitors, as P(rigwright.workstation.frp_tunnels#filter) makes them.
    type: dict
    required: true
  offered:
    description: "The services that clients offer, as C({tower: [{name: ssh}]}). A client that is left out is not known."
    type: dict
    required: true
  server:
    description: The server's name in the inventory, for the message.
    type: str
    required: true
  allow_ports:
    description: The ranges of ports that the server allows, as in C(frp_server_allow_ports). Leave out when they are not known.
    type: list
    elements: dict
"""

EXAMPLES = r"""
- name: Refuse a service that tower does not offer
  rigwright.workstation.require:
    that: "{{ tunnels | rigwright.workstation.frp_peer_requirements({'tower': [{'name': 'ssh'}]}, 'gateway') }}"
"""

RETURN = r"""
_value:
  description: Two requirements, met or not.
  type: list
  elements: dict
"""

from collections.abc import Mapping, Sequence
from typing import Any


def frp_peer_requirements(
    tunnels: Mapping[str, Sequence[Mapping[str, Any]]],
    offered: Mapping[str, Sequence[Mapping[str, Any]]],
    server: str,
    allow_ports: Sequence[Mapping[str, int]] | None = None,
) -> list[dict[str, Any]]:
    """Return the requirements on the visitors and on the public ports of one client."""
    names = {user: [service["name"] for service in services] for user, services in offered.items()}
    missing = [
        f"{visitor['serverName']} of {user}, which offers {', '.join(names[user]) or 'nothing'}"
        for visitor in tunnels["visitors"]
        if (user := visitor["serverUser"]) in names and visitor["serverName"] not in names[user]
    ]
    closed = [
        f"{proxy['remotePort']} for {proxy['name']}"
        for proxy in tunnels["proxies"]
        if allow_ports is not None and "remotePort" in proxy and not _allowed(int(proxy["remotePort"]), allow_ports)
    ]
    return [
        {
            "ok": not missing,
            "variable": "frp_client_visitors",
            "problem": f"asks for {'; '.join(missing)}",
            "remedy": "correct server_user or server_name, or add the service to that client's frp_client_services",
        },
        {
            "ok": not closed,
            "variable": "frp_client_services",
            "problem": f"asks for public port {', '.join(closed)}, which {server} does not allow",
            "remedy": f"add the port to frp_server_allow_ports of {server}, or leave remote_port out",
        },
    ]


def _allowed(port: int, ranges: Sequence[Mapping[str, int]]) -> bool:
    return any(int(range_["start"]) <= port <= int(range_["end"]) for range_ in ranges)


class FilterModule:
    """Filters of this collection."""

    def filters(self) -> dict[str, Any]:
        return {"frp_peer_requirements": frp_peer_requirements}

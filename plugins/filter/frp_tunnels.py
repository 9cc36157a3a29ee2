# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: frp_tunnels
short_description: The proxies and visitors of a frp client
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Turns the services and visitors of the role P(rigwright.workstation.frp_client#role) into what C(frpc) reads.
  - A service becomes a C(stcp) proxy, which only visitors with the secret reach, or a C(tcp) proxy when it names a C(remote_port).
positional: _input, visitors
options:
  _input:
    description: The services, as in C(frp_client_services).
    type: list
    elements: dict
    required: true
  visitors:
    description: The visitors, as in C(frp_client_visitors).
    type: list
    elements: dict
    required: true
  ports:
    description: TCP ports of services that need not name theirs.
    type: dict
    default: {}
  secret_key:
    description: Secret of services and visitors that name none.
    type: str
    default: ""
  allow_users:
    description: Clients that may use the services that name none.
    type: list
    elements: str
    default: ["*"]
"""

EXAMPLES = r"""
- name: Show what frpc will read
  ansible.builtin.debug:
    msg: "{{ [{'name': 'web', 'local_port': 8080}] | rigwright.workstation.frp_tunnels([], secret_key='sixteen letters!') }}"
"""

RETURN = r"""
_value:
  description: C(proxies) and C(visitors) in frp's own keys.
  type: dict
"""

from typing import Any


def frp_tunnels(
    services: list[dict[str, Any]],
    visitors: list[dict[str, Any]],
    ports: dict[str, int] | None = None,
    secret_key: str = "",
    allow_users: list[str] | None = None,
) -> dict[str, list[Any]]:
    """Return the proxies and visitors of one client. A service without a port has port 0, which the role refuses."""
    return {
        "proxies": [_proxy(service, ports or {}, secret_key, allow_users or ["*"]) for service in services],
        "visitors": [_visitor(visitor, secret_key) for visitor in visitors],
    }


def _proxy(service: dict[str, Any], ports: dict[str, int], secret_key: str, allow_users: list[str]) -> dict[str, Any]:
    proxy = {
        "name": service["name"],
        "localIP": service.get("local_ip") or "127.0.0.1",
        "localPort": int(service.get("local_port") or ports.get(service["name"], 0)),
    }
    if service.get("remote_port"):
        proxy |= {"type": "tcp", "remotePort": int(service["remote_port"])}
    else:
        proxy |= {
            "type": "stcp",
            "secretKey": service.get("secret_key") or secret_key,
            "allowUsers": service.get("allow_users") or allow_users,
        }
    return proxy | (service.get("extra") or {})


def _visitor(visitor: dict[str, Any], secret_key: str) -> dict[str, Any]:
    return {
        # The name is this client's own; two services of the same name at two clients need two.
        "name": f"{visitor['server_user']}-{visitor['server_name']}",
        "type": "stcp",
        "serverUser": visitor["server_user"],
        "serverName": visitor["server_name"],
        "secretKey": visitor.get("secret_key") or secret_key,
        "bindAddr": visitor.get("bind_address") or "127.0.0.1",
        "bindPort": int(visitor["bind_port"]),
    } | (visitor.get("extra") or {})


class FilterModule:
    """Filters of this collection."""

    def filters(self) -> dict[str, Any]:
        return {"frp_tunnels": frp_tunnels}

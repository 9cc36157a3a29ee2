# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Turn the services and visitors of a frp client into what frpc reads. Pure."""

from __future__ import annotations

import typing as t

# IANA service names and port numbers; 8888 is Jupyter's own default.
KNOWN_PORTS = {"ssh": 22, "rdp": 3389, "smb": 445, "jupyter": 8888}

Options = t.Mapping[str, t.Any]


def tunnels(
    services: t.Sequence[Options],
    visitors: t.Sequence[Options],
    secret_key: str = "",
    allow_users: t.Sequence[str] = ("*",),
) -> dict[str, list[dict[str, t.Any]]]:
    """Return the proxies and visitors of one client. A service without a port has port 0, which the role refuses."""
    return {
        "proxies": [_proxy(service, secret_key, list(allow_users) or ["*"]) for service in services],
        "visitors": [_visitor(visitor, secret_key) for visitor in visitors],
    }


def _proxy(service: Options, secret_key: str, allow_users: list[str]) -> dict[str, t.Any]:
    proxy: dict[str, t.Any] = {
        "name": service["name"],
        "localIP": service.get("local_ip") or "127.0.0.1",
        "localPort": int(service.get("local_port") or KNOWN_PORTS.get(service["name"], 0)),
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


def _visitor(visitor: Options, secret_key: str) -> dict[str, t.Any]:
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

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Turn the services and visitors of a frp client into what frpc reads. Pure."""

from __future__ import annotations

import typing as t

# IANA service names and port numbers; 8888 is Jupyter's own default.
KNOWN_PORTS = {"ssh": 22, "rdp": 3389, "smb": 445, "jupyter": 8888}

# pkg/config/v1/proxy.go: the types that visitors reach by a secret, and those with a port of their own at the server. frpc refuses the
# keys of other types.
SECRET = ("stcp", "xtcp", "sudp")
PUBLIC = ("tcp", "udp")
# The port of a visitor to which others fall back, and which listens nowhere.
NO_PORT = -1

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
    extra = service.get("extra") or {}
    kind = str(extra.get("type") or ("tcp" if service.get("remote_port") else "stcp"))
    proxy: dict[str, t.Any] = {"name": service["name"], "type": kind}
    # A plugin of frpc is the service, or knows where it is.
    if service.get("local_port") or not extra.get("plugin"):
        proxy["localIP"] = service.get("local_ip") or "127.0.0.1"
        proxy["localPort"] = int(service.get("local_port") or KNOWN_PORTS.get(service["name"], 0))
    if service.get("remote_port"):
        proxy["remotePort"] = int(service["remote_port"])
    if kind in SECRET:
        proxy["secretKey"] = service.get("secret_key") or secret_key
        proxy["allowUsers"] = service.get("allow_users") or allow_users
    return proxy | extra


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

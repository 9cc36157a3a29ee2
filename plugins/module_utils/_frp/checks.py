# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refuse a frp server or client that could not work, or would not be safe. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.identity import problems_of_name
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Listener
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.rules import parse_networks
from ansible_collections.rigwright.workstation.plugins.module_utils._frp import server_ports
from ansible_collections.rigwright.workstation.plugins.module_utils._frp.tunnels import (
    KNOWN_PORTS,
    NO_PORT,
    PUBLIC,
    SECRET,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system.ports import port_problems

Params = t.Mapping[str, t.Any]
Tunnels = t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]]
Listeners = t.Sequence[Listener]

USER = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
TOKEN_LENGTH = 32
SECRET_LENGTH = 16


def server_problems(params: Params, listeners: Listeners) -> list[Problem]:
    """Return the problems of a server."""
    texts = {name: params[name] for name in ("token", "dashboard_user", "dashboard_password", "extra")}
    return [
        *_token_problems("frp_server", params["token"], "make one with `openssl rand -hex 32` and keep it in a vault"),
        *_server_problems(params),
        *_spelling_problems("frp_server_extra", params["extra"]),
        *_port_problems(params, listeners),
        *text_problems({f"frp_server_{name}": value for name, value in texts.items()}),
        *_network_problems(params["networks"]),
    ]


# Options whose own options have names of the user.
NAMED_BY_USERS = ("annotations", "metadatas", "requestHeaders", "responseHeaders", "additionalEndpointParams")


def _spelling_problems(variable: str, options: t.Mapping[str, t.Any]) -> t.Iterator[Problem]:
    """Yield options by the names of frp's older files, or with a dot, as lines of TOML have them: frp knows neither here."""
    odd = sorted({name for name in _names(options) if re.search(r"[a-z]_[a-z]|\w\.\w", name)})
    if odd:
        yield problem(
            variable,
            f"has {', '.join(odd)}, which frp does not read so",
            "write it as frp's TOML files do: bindPort for bind_port, `transport: {useEncryption: true}` for use_encryption, "
            "and `webServer: {port: 7500}` for webServer.port",
        )


def _names(options: t.Any) -> t.Iterator[str]:
    for name, value in options.items() if isinstance(options, t.Mapping) else ():
        yield str(name)
        if name not in NAMED_BY_USERS:
            for each in value if isinstance(value, list) else [value]:
                yield from _names(each)


def _port_problems(params: Params, listeners: Listeners) -> t.Iterator[Problem]:
    names = {"bindPort": "frp_server_bind_port", "webServer.port": "frp_server_dashboard_port"}
    config = server_ports.config_of(params)
    odd = server_ports.unreadable(config)
    if odd:
        yield problem(
            "frp_server_extra",
            f"has {', '.join(odd)} in a form that frps does not read",
            "write a port as a number, and `allowPorts: [{start: 2000, end: 3000}, {single: 3001}]`",
        )
    found = server_ports.ports(config)
    bind = next((port for port in found if port.option == "bindPort"), None)
    for protocol in ("tcp", "udp"):
        wanted: dict[str, list[int]] = {}
        for port in found:
            # frps tells http, https and its own clients apart on one port.
            is_shared = bind and port.option.startswith("vhost") and port[2:] == bind[2:]
            if port.protocol == protocol and not is_shared:
                wanted.setdefault(names.get(port.option, "frp_server_extra"), []).append(port.number)
        yield from port_problems(wanted, listeners, "frps.service", protocol)
    hidden = [f"{port.option} {port.number}" for port in found if _is_hidden(port)]
    if hidden:
        yield problem(
            "frp_server_extra",
            f"has {', '.join(hidden)}, which this machine alone would reach",
            "set frp_server_proxy_bind_address to 0.0.0.0, or use a port above 1023 behind a web server of this machine",
        )
    gateway = params["extra"].get("sshTunnelGateway") or {}
    if gateway.get("bindPort") and not (gateway.get("privateKeyFile") or gateway.get("autoGenPrivateKeyPath")):
        yield problem(
            "frp_server_extra",
            "has sshTunnelGateway without a key, which frps would write into a directory where it may not write",
            "set sshTunnelGateway.privateKeyFile to a key that every user may read, or to one that frps.service gets by a drop-in",
        )


def _is_hidden(port: server_ports.Port) -> bool:
    return port.option.startswith("vhost") and port.number < 1024 and port.on_loopback


def client_problems(params: Params, tunnels: Tunnels, listeners: Listeners) -> list[Problem]:
    """Return the problems of a client by itself."""
    visits = {
        protocol: [
            visitor["bindPort"]
            for visitor in tunnels["visitors"]
            if (visitor["type"] == "sudp") == (protocol == "udp") and visitor["bindPort"] != NO_PORT
        ]
        for protocol in ("tcp", "udp")
    }
    ports = {"frp_client_admin_port": params["admin_port"], "frp_client_visitors": visits["tcp"]}
    names = ("server_address", "token", "user", "secret_key", "services", "visitors", "extra")
    extras = {
        "frp_client_extra": [params["extra"]],
        **{f"frp_client_{name}": [row.get("extra") or {} for row in params[name]] for name in ("services", "visitors")},
    }
    return [
        *(row for variable, found in extras.items() for each in found for row in _spelling_problems(variable, each)),
        *_client_problems(params),
        *tunnel_problems(tunnels),
        *_service_problems(params["services"], tunnels),
        *port_problems(ports, listeners, "frpc.service"),
        *port_problems({"frp_client_visitors": visits["udp"]}, listeners, "frpc.service", "udp"),
        *text_problems({f"frp_client_{name}": params[name] for name in names}),
    ]


def _token_problems(role: str, token: str, remedy: str) -> t.Iterator[Problem]:
    if len(token) < TOKEN_LENGTH:
        yield problem(f"{role}_token", f"is missing or shorter than {TOKEN_LENGTH} characters", remedy)


def _server_problems(params: Params) -> t.Iterator[Problem]:
    if 0 < len(params["dashboard_password"]) < SECRET_LENGTH:
        yield problem(
            "frp_server_dashboard_password",
            f"is shorter than {SECRET_LENGTH} characters",
            "make one with `openssl rand -hex 16`, or leave it empty to have no dashboard",
        )
    if not params["tls_subject_alt_names"]:
        yield problem(
            "frp_server_tls_subject_alt_names",
            "is empty, so no client could check the certificate",
            "name the DNS names or addresses by which clients reach the host",
        )


def _network_problems(networks: t.Sequence[str]) -> t.Iterator[Problem]:
    try:
        parse_networks(networks)
    except ValueError as error:
        yield problem(
            "frp_server_networks",
            f"is not right: {error}",
            "list networks in CIDR notation, or addresses; an empty list is this machine alone",
        )


def _client_problems(params: Params) -> t.Iterator[Problem]:
    if not params["server_address"]:
        yield problem(
            "frp_client_server_address",
            "is missing",
            "set it to a name of the server in its certificate (frp_server_tls_subject_alt_names)",
        )
    yield from _token_problems("frp_client", params["token"], "use the server's frp_server_token")
    yield from problems_of_name("frp_client_user", params["user"])
    if not USER.fullmatch(params["user"]):
        yield problem("frp_client_user", "is not a plain name", "use letters, digits, `.`, `_` and `-`")


def tunnel_problems(tunnels: Tunnels) -> t.Iterator[Problem]:
    """Yield the problems of proxies and visitors, which name no secret."""
    both = [*tunnels["proxies"], *tunnels["visitors"]]
    names = [tunnel["name"] for tunnel in both]
    if len({*names}) < len(names):
        yield problem(
            "frp_client_services and frp_client_visitors",
            "name a tunnel twice",
            "give each service a name of its own",
        )
    portless = [proxy["name"] for proxy in tunnels["proxies"] if proxy.get("localPort") == 0]
    if portless:
        yield problem(
            "frp_client_services",
            f"has no port for {', '.join(portless)}",
            f"set `local_port`; only {', '.join(KNOWN_PORTS)} bring theirs",
        )
    weak = [tunnel["name"] for tunnel in both if len(str(tunnel.get("secretKey", "x" * SECRET_LENGTH))) < SECRET_LENGTH]
    if weak:
        yield problem(
            "frp_client_secret_key",
            f"is missing or shorter than {SECRET_LENGTH} characters for {', '.join(weak)}",
            "make one with `openssl rand -hex 16`, the same for the service and its visitors",
        )


def _service_problems(services: t.Sequence[t.Mapping[str, t.Any]], tunnels: Tunnels) -> t.Iterator[Problem]:
    """Yield services with an option that their type does not have."""
    for service, proxy in zip(services, tunnels["proxies"]):
        if service.get("remote_port") and proxy["type"] not in PUBLIC:
            yield problem(
                "frp_client_services",
                f"has remote_port for {proxy['name']}, which a service of type {proxy['type']} does not have",
                "leave remote_port out: http and https have ports of the server (vhostHTTPPort), and stcp none",
            )
        if service.get("secret_key") and proxy["type"] not in SECRET:
            yield problem(
                "frp_client_services",
                f"has secret_key for {proxy['name']}, which everyone who reaches the server would reach without it",
                "leave remote_port and type out, so that only visitors with the secret reach it, or leave secret_key out",
            )


def peer_problems(
    tunnels: Tunnels,
    offered: t.Mapping[str, t.Sequence[str]],
    server: str,
    allow_ports: t.Sequence[t.Mapping[str, t.Any]] | None,
) -> t.Iterator[Problem]:
    """Yield what the other ends of the tunnels are known not to carry. What is not known is left to verify.yml.

    :param offered: the names of the services that clients offer; a client that is left out is not known.
    :param server: the server's name in the inventory.
    :param allow_ports: the ranges of ports that the server allows; None when they are not known.
    """
    missing = [
        f"{visitor['serverName']} of {user}, which offers {', '.join(offered[user]) or 'nothing'}"
        for visitor in tunnels["visitors"]
        if (user := visitor["serverUser"]) in offered and visitor["serverName"] not in offered[user]
    ]
    if missing:
        yield problem(
            "frp_client_visitors",
            f"asks for {'; '.join(missing)}",
            "correct server_user or server_name, or add the service to that client's frp_client_services",
        )
    closed = [
        f"{proxy['remotePort']} for {proxy['name']}"
        for proxy in tunnels["proxies"]
        if allow_ports is not None and "remotePort" in proxy and not _allowed(int(proxy["remotePort"]), allow_ports)
    ]
    if closed:
        yield problem(
            "frp_client_services",
            f"asks for public port {', '.join(closed)}, which {server} does not allow",
            f"add the port to frp_server_allow_ports of {server}, or leave remote_port out",
        )


def _allowed(port: int, ranges: t.Sequence[t.Mapping[str, t.Any]]) -> bool:
    return any(int(range_["start"]) <= port <= int(range_["end"]) for range_ in ranges)


def text_problems(values: t.Mapping[str, t.Any]) -> t.Iterator[Problem]:
    """Yield the variables with two opening braces in a text, key or value. No value is shown: it may be secret.

    frp reads its configuration as a Go template before it reads it as TOML, so they would be run, not read.
    """
    for name, value in values.items():
        if any("{{" in text for text in _texts(value)):
            yield problem(name, "holds two opening braces, which frp would run as a template", "choose another value")


def _texts(value: t.Any) -> t.Iterator[str]:
    if isinstance(value, t.Mapping):
        yield from _texts([*value.keys(), *value.values()])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
    else:
        yield str(value)

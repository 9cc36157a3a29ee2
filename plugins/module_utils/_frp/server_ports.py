# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read from frps' own options where it listens: also by those of ``frp_server_extra``. Pure."""

from __future__ import annotations

import re
import typing as t

Config = t.Mapping[str, t.Any]

LOOPBACK = re.compile(r"127\.|::1$|localhost$")
# server/service.go: the port, its protocol, and the option with its address.
_PORTS = (
    ("bindPort", "tcp", "bindAddr"),
    ("kcpBindPort", "udp", "bindAddr"),
    ("quicBindPort", "udp", "bindAddr"),
    ("sshTunnelGateway.bindPort", "tcp", "bindAddr"),
    ("vhostHTTPPort", "tcp", "proxyBindAddr"),
    ("vhostHTTPSPort", "tcp", "proxyBindAddr"),
    ("tcpmuxHTTPConnectPort", "tcp", "proxyBindAddr"),
)


class Port(t.NamedTuple):
    """A port on which frps itself listens."""

    option: str
    protocol: str
    address: str
    number: int

    @property
    def on_loopback(self) -> bool:
        return bool(LOOPBACK.match(self.address))


def config_of(params: Config) -> dict[str, t.Any]:
    """Return the options of frps that name addresses and ports, from the options of the role."""
    own: dict[str, t.Any] = {
        "bindAddr": params.get("bind_address"),
        "bindPort": params.get("bind_port"),
        "proxyBindAddr": params.get("proxy_bind_address", "127.0.0.1"),
        "allowPorts": params.get("allow_ports") or [],
    }
    if params.get("dashboard_password"):
        own["webServer"] = {"addr": params.get("dashboard_address"), "port": params.get("dashboard_port")}
    return merged(own, params.get("extra") or {})


def ports(config: Config) -> list[Port]:
    """Return the ports of frps itself, without those that clients request."""
    bind = config.get("bindAddr") or "0.0.0.0"  # noqa: S104 - the default of frps
    addresses = {"bindAddr": bind, "proxyBindAddr": config.get("proxyBindAddr") or bind}
    found = [
        Port(option, protocol, addresses[address], number)
        for option, protocol, address in _PORTS
        if (number := _number(_value(config, option)))
    ]
    if number := _number(_value(config, "webServer.port")):
        found.append(Port("webServer.port", "tcp", _value(config, "webServer.addr") or "127.0.0.1", number))
    return found


def unreadable(config: Config) -> list[str]:
    """Return the options whose value is not a port, or not ranges of ports."""
    values = {option: _value(config, option) for option in (*(row[0] for row in _PORTS), "webServer.port")}
    rows = config.get("allowPorts") or []
    are_ranges = isinstance(rows, list) and len(_rows(rows)) == len(rows)
    return [option for option, value in values.items() if value and not _number(value)] + ["allowPorts"] * (
        not are_ranges
    )


def listening(config: Config) -> dict[str, t.Any]:
    """Return whether frps needs the capability to bind ports below 1024, and what the role firewall has to open for its clients."""
    own = ports(config)
    requested = _requested(config)
    public = [] if LOOPBACK.match(config.get("proxyBindAddr") or config.get("bindAddr") or "") else requested
    # The dashboard is for this machine and for those who reach it by ssh, whichever address it has.
    opened = [port for port in own if not port.on_loopback and port.option != "webServer.port"]
    return {
        "privileged": any(number < 1024 for number in [*(port.number for port in own), *(row[0] for row in requested)]),
        "opened": [
            {
                "protocol": protocol,
                "port": [
                    *(port.number for port in opened if port.protocol == protocol),
                    *(f"{first}-{last}" for first, last in public),
                ],
            }
            for protocol in ("tcp", "udp")
        ],
    }


def _requested(config: Config) -> list[tuple[int, int]]:
    """Return the ranges that clients may request. The role writes an empty range for none, since no range at all is every port."""
    return [(first, last) for first, last in _rows(config.get("allowPorts") or []) if 0 < first <= last]


def _rows(rows: t.Any) -> list[tuple[int, int]]:
    own = [row for row in rows if isinstance(row, t.Mapping)] if isinstance(rows, list) else []
    return [tuple(_number(row.get(name) or row.get("single")) for name in ("start", "end")) for row in own]  # type: ignore[misc]


def _number(value: t.Any) -> int:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return int(value) if is_number or (isinstance(value, str) and value.isdecimal()) else 0


def _value(config: Config, option: str) -> t.Any:
    value: t.Any = config
    for name in option.split("."):
        value = value.get(name) if isinstance(value, t.Mapping) else None
    return value


def merged(own: t.Mapping[str, t.Any], extra: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Merge as the filter `combine` does with `recursive=true`."""
    both = {
        name: merged(own[name], value)
        for name, value in extra.items()
        if isinstance(value, t.Mapping) and isinstance(own.get(name), t.Mapping)
    }
    return {**own, **extra, **both}

# SPDX-License-Identifier: GPL-3.0-or-later
"""Where frps listens. Options of other people's servers are in tests/world/frp."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._frp import server_ports

ALL = "0.0.0.0"  # noqa: S104 - listened on, not bound
ROLE: dict[str, Any] = {
    "bind_address": ALL,
    "bind_port": 7000,
    "proxy_bind_address": "127.0.0.1",
    "allow_ports": [],
    "dashboard_password": "",
    "dashboard_address": "127.0.0.1",
    "dashboard_port": 7500,
    "extra": {},
}


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ({"allowPorts": 2000}, ["allowPorts"]),
        ({"allowPorts": "2000-3000"}, ["allowPorts"]),
        ({"allowPorts": [{"start": 2000, "end": 3000}, "4000"]}, ["allowPorts"]),
        ({"bindPort": True}, ["bindPort"]),
        ({"bindPort": "7000", "allowPorts": [{"single": 2000}]}, []),
        ({}, []),
    ],
)
def test_value_that_is_no_port_is_named(extra: dict[str, Any], named: list[str]) -> None:
    assert server_ports.unreadable(server_ports.config_of({**ROLE, "extra": extra})) == named


def opened(**options: Any) -> tuple[bool, list[Any], list[Any]]:
    found = server_ports.listening(server_ports.config_of({**ROLE, **options}))
    tcp, udp = found["opened"]
    assert (tcp["protocol"], udp["protocol"]) == ("tcp", "udp")
    return found["privileged"], tcp["port"], udp["port"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (False, [7000], [])),
        ({"bind_address": "127.0.0.1"}, (False, [], [])),
        ({"bind_address": "127.0.0.1", "extra": {"bindAddr": ALL}}, (False, [7000], [])),
        ({"dashboard_password": "x", "dashboard_port": 80, "dashboard_address": ALL}, (True, [7000], [])),
        ({"extra": {"webServer": {"port": 443, "addr": ALL}}}, (True, [7000], [])),
        ({"allow_ports": [{"start": 6000, "end": 6010}]}, (False, [7000], [])),
        (
            {"allow_ports": [{"start": 6000, "end": 6010}], "proxy_bind_address": ALL},
            (False, [7000, "6000-6010"], ["6000-6010"]),
        ),
        ({"proxy_bind_address": ALL, "extra": {"allowPorts": [{"single": 25}]}}, (True, [7000, "25-25"], ["25-25"])),
        ({"proxy_bind_address": ALL, "extra": {"allowPorts": [{"start": 1, "end": 0}]}}, (False, [7000], [])),
        ({"extra": {"vhostHTTPPort": 8080, "proxyBindAddr": ""}}, (False, [7000, 8080], [])),
        ({"extra": {"quicBindPort": "7001"}}, (False, [7000], [7001])),
        ({"extra": {"bindPort": 443}}, (True, [443], [])),
    ],
)
def test_ports_of_frps_follow_its_options(options: dict[str, Any], expected: Any) -> None:
    assert opened(**options) == expected


def test_options_that_are_no_numbers_count_as_none() -> None:
    assert opened(extra={"kcpBindPort": 0, "sshTunnelGateway": None, "vhostHTTPPort": None}) == (False, [7000], [])

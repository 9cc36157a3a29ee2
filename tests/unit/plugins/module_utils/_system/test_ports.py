# SPDX-License-Identifier: GPL-3.0-or-later
"""Ports that a service cannot listen on are refused."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Listener
from ansible_collections.rigwright.workstation.plugins.module_utils._system.ports import port_requirements


def listener(port: int, process: str | None, unit: str | None, protocol: str = "tcp") -> Listener:
    return {"protocol": protocol, "address": "127.0.0.1", "port": port, "process": process, "pid": 1, "unit": unit}


LISTENERS = [
    listener(22, "sshd", "ssh.service"),
    listener(7000, "frps", "frps.service"),
    listener(8080, None, None),
    listener(53, "dnsmasq", "dnsmasq.service", "udp"),
]


def refused(wanted: dict[str, int | list[int]], **options: str) -> list[str]:
    requirements = port_requirements(wanted, LISTENERS, "frps.service", **options)
    return [f"{row['variable']} {row['problem']}" for row in requirements if not row["ok"]]


@pytest.mark.parametrize(
    "wanted", [{"a_port": 7001}, {"a_port": 7000}, {"a_port": 53}, {"ports": [7001, 7002]}, {"ports": []}]
)
def test_free_ports_and_those_of_the_service(wanted):
    assert refused(wanted) == []


def test_a_taken_port_names_the_program():
    assert refused({"a_port": 22}) == ["a_port wants port 22, which is taken by sshd"]
    assert refused({"ports": [22, 8080]}) == ["ports wants port 22, 8080, which is taken by an unknown program, sshd"]
    assert refused({"a_port": 53}, protocol="udp") == ["a_port wants port 53, which is taken by dnsmasq"]


def test_port_requested_twice_is_refused():
    assert refused({"ports": [6022, 6022]}) == ["ports wants port 6022, which is asked for twice"]
    assert refused({"a_port": 7400, "ports": [6022, 7400]}) == [
        "a_port wants port 7400, which is asked for twice",
        "ports wants port 7400, which is asked for twice",
    ]


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_an_invalid_port(port):
    assert refused({"a_port": port}) == [f"a_port is not a TCP port: {port}"]

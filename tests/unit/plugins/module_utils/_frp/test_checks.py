# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests of a server and a client that are refused, and the inventory's variables of the other ends."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._frp import checks
from ansible_collections.rigwright.workstation.plugins.module_utils._frp.tunnels import tunnels

from tests.unit.support.frp import CLIENT, SERVER

OFFERED = {"tower": ["ssh", "web"], "idle": []}
SSHD: Any = {"protocol": "tcp", "port": 22, "unit": "ssh.service", "process": "sshd"}


def lines(problems: Any) -> list[str]:
    return [f"{problem['variable']} {problem['problem']}" for problem in problems]


def visit(user: str, name: str, port: int = 6022) -> dict[str, Any]:
    return {"server_user": user, "server_name": name, "bind_port": port}


def public(port: int) -> dict[str, Any]:
    return {"name": "web", "local_port": 80, "remote_port": port}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"dashboard_password": "d" * 16}, []),
        ({"token": "x" * 31}, ["frp_server_token is missing or shorter than 32 characters"]),
        ({"dashboard_password": "short"}, ["frp_server_dashboard_password is shorter than 16 characters"]),
        (
            {"tls_subject_alt_names": []},
            ["frp_server_tls_subject_alt_names is empty, so no client could check the certificate"],
        ),
        ({"bind_port": 22}, ["frp_server_bind_port wants port 22, which is taken by sshd"]),
        ({"extra": {"kcpBindPort": 7000, "vhostHTTPPort": 7000, "proxyBindAddr": "0.0.0.0"}}, []),  # noqa: S104
        (
            {"extra": {"vhostHTTPPort": 80}},
            ["frp_server_extra has vhostHTTPPort 80, which this machine alone would reach"],
        ),
        ({"extra": {"vhostHTTPPort": 8080}}, []),
        ({"extra": {"tcpmuxHTTPConnectPort": 22}}, ["frp_server_extra wants port 22, which is taken by sshd"]),
        ({"extra": {"webServer": {"port": 22}}}, ["frp_server_dashboard_port wants port 22, which is taken by sshd"]),
        (
            {"extra": {"kcpBindPort": 6000, "quicBindPort": 6000}},
            ["frp_server_extra wants port 6000, which is asked for twice"],
        ),
        ({"extra": {"sshTunnelGateway": {"bindPort": 2200, "privateKeyFile": "/etc/key"}}}, []),
        ({"extra": {"a": "{{ b }}"}}, ["frp_server_extra holds two opening braces, which frp would run as a template"]),
    ],
)
def test_request_of_a_server(changes: dict[str, Any], expected: list[str]) -> None:
    assert lines(checks.server_problems({**SERVER, **changes}, [SSHD])) == expected


def test_name_as_network_is_refused() -> None:
    (line,) = lines(checks.server_problems({**SERVER, "networks": ["here"]}, []))
    assert line.startswith("frp_server_networks is not right: ")


def test_port_of_the_dashboard_counts_only_with_a_password() -> None:
    same = {**SERVER, "dashboard_port": 7000}
    assert checks.server_problems(same, []) == []
    assert "frp_server_dashboard_port wants port 7000, which is asked for twice" in lines(
        checks.server_problems({**same, "dashboard_password": "d" * 16}, [])
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"server_address": ""}, ["frp_client_server_address is missing"]),
        ({"token": ""}, ["frp_client_token is missing or shorter than 32 characters"]),
        ({"user": "localhost"}, ["frp_client_user is 'localhost', which every machine can be called"]),
        ({"user": "two words"}, ["frp_client_user is not a plain name"]),
        ({"user": "tower\n"}, ["frp_client_user is not a plain name"]),
        ({"admin_port": 22}, ["frp_client_admin_port wants port 22, which is taken by sshd"]),
        ({"services": [{"name": "web"}]}, ["frp_client_services has no port for web"]),
        ({"visitors": [{**visit("a", "ssh", 22), "extra": {"type": "sudp"}}]}, []),
        ({"visitors": [visit("a", "ssh", -2)]}, ["frp_client_visitors is not a TCP port: -2"]),
        (
            {"services": [{"name": "web", "local_port": 80, "remote_port": 6000, "secret_key": "t" * 16}]},
            [
                "frp_client_services has secret_key for web, which everyone who reaches the server would reach without it"
            ],
        ),
        (
            {"services": [{"name": "ssh"}, {"name": "ssh", "local_port": 2222}]},
            ["frp_client_services and frp_client_visitors name a tunnel twice"],
        ),
        (
            {"visitors": [visit("a", "ssh"), visit("b", "ssh")]},
            ["frp_client_visitors wants port 6022, which is asked for twice"],
        ),
        (
            {"secret_key": "short", "services": [{"name": "ssh"}, public(6000)], "visitors": [visit("a", "ssh")]},
            ["frp_client_secret_key is missing or shorter than 16 characters for ssh, a-ssh"],
        ),
        (
            {"services": [{"name": "ssh", "secret_key": "{{" + "x" * 16}]},
            ["frp_client_services holds two opening braces, which frp would run as a template"],
        ),
    ],
)
def test_request_of_a_client(changes: dict[str, Any], expected: list[str]) -> None:
    params = {**CLIENT, **changes}
    wanted = tunnels(params["services"], params["visitors"], params["secret_key"])
    assert lines(checks.client_problems(params, wanted, [SSHD])) == expected


# --- The other ends ---


def refused(
    services: list[dict[str, Any]], visitors: list[dict[str, Any]], allow_ports: list[dict[str, int]] | None = None
) -> list[str]:
    return lines(checks.peer_problems(tunnels(services, visitors), OFFERED, "gateway", allow_ports))


def test_a_service_that_the_other_client_offers() -> None:
    assert refused([], [visit("tower", "ssh"), visit("tower", "web")]) == []


def test_service_that_is_not_offered_is_refused() -> None:
    assert refused([], [visit("tower", "shh"), visit("idle", "ssh")]) == [
        "frp_client_visitors asks for shh of tower, which offers ssh, web; ssh of idle, which offers nothing"
    ]


def test_a_client_that_is_not_known_is_left_to_verify() -> None:
    assert refused([], [visit("elsewhere", "ssh")]) == []


@pytest.mark.parametrize("port", [6000, 6005, 6010])
def test_a_port_that_the_server_allows(port: int) -> None:
    assert refused([public(port)], [], [{"start": 22, "end": 22}, {"start": 6000, "end": 6010}]) == []


@pytest.mark.parametrize("allow_ports", [[], [{"start": 6000, "end": 6010}]])
def test_a_port_that_it_does_not_allow_is_refused(allow_ports: list[dict[str, int]]) -> None:
    assert refused([public(6011)], [], allow_ports) == [
        "frp_client_services asks for public port 6011 for web, which gateway does not allow"
    ]


def test_unknown_server_and_private_service_are_accepted() -> None:
    assert refused([public(6011)], [], None) == []
    assert refused([{"name": "ssh", "local_port": 22}], [], []) == []


# --- Braces ---


@pytest.mark.parametrize("value", ["a{{b", ["x", {"deep": "{{ .Envs.HOME }}"}], {"{{key}}": 1}])
def test_braces_are_refused_by_the_name_of_the_variable(value: Any) -> None:
    (problem,) = checks.text_problems({"token": "plain", "extra": value})
    assert problem["variable"] == "extra"
    assert "{{" not in problem["problem"]


@pytest.mark.parametrize("value", ["", "{", "}}", "{ {", 7, None, {"a": {"b": {}}}, [[], {}]])
def test_everything_else_passes(value: Any) -> None:
    assert list(checks.text_problems({"extra": value})) == []

# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings on a server and a client, from recorded outputs of openssl and systemd-analyze and a dashboard that answers."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._frp import frpc, verify

SERVER: dict[str, Any] = {
    "bind_address": "0.0.0.0",  # noqa: S104 - looked up, not bound
    "bind_port": 7000,
    "tls_subject_alt_names": ["gateway.test", "192.0.2.1"],
    "dashboard_password": "",
    "dashboard_user": "admin",
    "dashboard_address": "127.0.0.1",
    "dashboard_port": 7500,
}
CLIENT: dict[str, Any] = {
    "server_address": "gateway.test",
    "admin_port": 574,
    "token": "t" * 32,
    "secret_key": "s" * 16,
    "services": [{"name": "ssh"}],
    "visitors": [{"server_user": "laptop", "server_name": "ssh", "bind_port": 6022}],
    "allow_users": ["*"],
}
EXPOSURE = "\u2192 Overall exposure level for frps.service: 1.4 OK\n"


def nobody(_address: str, _port: int) -> str:
    return ""


class Programs:
    """Programs of a host: openssl with a status, and systemd-analyze."""

    def __init__(self, status: int = 0, output: str = "    Verify return code: 0 (ok)\n") -> None:
        self.status, self.output = status, output
        self.commands: list[list[str]] = []

    def __call__(self, command: list[str], **_options: Any) -> tuple[int, str, str]:
        self.commands.append(command)
        outputs = {"openssl": (self.status, self.output, ""), "systemd-analyze": (0, EXPOSURE, "")}
        return outputs.get(command[0], (self.status, "", ""))


@pytest.fixture
def dashboard() -> Iterator[int]:
    """Answer with 200 who knows the password `right`, and with 401 everybody else; gives the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            login = f"Basic {base64.b64encode(b'admin:right').decode()}"
            self.send_response(200 if self.headers["Authorization"] == login and self.path == "/metrics" else 401)
            self.end_headers()

        def log_message(self, *_words: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


# --- The server ---


def test_server_is_found_well(dashboard: int) -> None:
    programs = Programs()
    found = verify.server_findings(programs, {**SERVER, "dashboard_password": "right", "dashboard_port": dashboard})
    assert {row["id"]: row["status"] for row in found} == {
        "frp_server.tls": "pass",
        "frp_server.dashboard": "pass",
        "frp_server.confinement": "pass",
    }
    assert found[1]["evidence"] == "metrics with the password and with a wrong one: 200, 401"


@pytest.mark.parametrize(
    ("address", "name", "place", "check"),
    [
        ("0.0.0.0", "gateway.test", "127.0.0.1:7000", "-verify_hostname"),  # noqa: S104
        ("::", "192.0.2.1", "[::1]:7000", "-verify_ip"),
        ("192.0.2.1", "2001:db8::1", "192.0.2.1:7000", "-verify_ip"),
    ],
)
def test_client_of_tls_checks_the_first_name(address: str, name: str, place: str, check: str) -> None:
    programs = Programs()
    verify.tls_finding(programs, {**SERVER, "bind_address": address, "tls_subject_alt_names": [name]})
    (command,) = programs.commands
    assert command[2:4] == ["-connect", place]
    assert command[-2:] == [check, name]


@pytest.mark.parametrize("status", [1, 127])
def test_refused_connection_fails(status: int) -> None:
    found = verify.tls_finding(Programs(status), SERVER)
    assert found["status"] == "fail"
    assert found["evidence"] == (
        f"openssl s_client to port 7000, certificate for gateway.test by the private CA: exit status {status}"
    )


def test_connection_that_verified_nothing_fails() -> None:
    assert verify.tls_finding(Programs(0, ""), SERVER)["status"] == "fail"


def test_dashboard_that_is_off_open_or_gone(dashboard: int) -> None:
    assert verify.dashboard_finding(SERVER, nobody)["status"] == "skip"
    refused = verify.dashboard_finding({**SERVER, "dashboard_password": "other", "dashboard_port": dashboard}, nobody)
    assert (refused["status"], refused["evidence"][-8:]) == ("fail", "401, 401")
    gone = verify.dashboard_finding({**SERVER, "dashboard_password": "right", "dashboard_port": 1}, nobody)
    assert (gone["status"], gone["evidence"][-6:]) == ("fail", "-1, -1")


def test_dashboard_port_of_another_user_gets_no_password(dashboard: int) -> None:
    sent: list[tuple[str, int]] = []

    def mallory(address: str, port: int) -> str:
        sent.append((address, port))
        return "the user mallory listens there, and not the service"

    request = {**SERVER, "dashboard_password": "right", "extra": {"webServer": {"port": dashboard}}}
    found = verify.dashboard_finding(request, mallory)
    assert sent == [("127.0.0.1", dashboard)]
    assert (found["status"], found["evidence"]) == (
        "fail",
        f"nothing was sent to port {dashboard}: the user mallory listens there, and not the service",
    )


# --- The client ---


def test_visitor_without_a_connection_is_not_proven() -> None:
    found = verify.visitors_finding(frpc.Report("", {}, {}), ["tower-dns"])
    assert (found["status"], found["evidence"]) == ("skip", "not proven, since no connection can be opened: tower-dns")
    both = verify.visitors_finding(frpc.Report("", {}, {"tower-ssh": ""}), ["tower-dns"])
    assert (both["status"], both["evidence"].partition(";")[0]) == ("pass", "tower-ssh reach the other end")
    assert verify.is_tried({"type": "stcp", "bindPort": 6022})
    assert not verify.is_tried({"type": "stcp", "bindPort": -1}) and not verify.is_tried(
        {"type": "sudp", "bindPort": 5353}
    )


@pytest.mark.parametrize(("first", "port", "status"), [(1024, 574, "pass"), (1024, 7400, "warn"), (0, 574, "warn")])
def test_port_that_any_user_can_take_is_named(first: int, port: int, status: str) -> None:
    assert verify.admin_port_finding(port, first, True)["status"] == status
    assert verify.admin_port_finding(port, first, False)["status"] == ("skip" if status == "pass" else status)


def test_client_is_asked_for_its_tunnels(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments: list[Any] = []

    def read_state(_run: Any, *given: Any) -> frpc.Report:
        arguments.extend(given)
        return frpc.Report("", {"ssh": ""}, {"laptop-ssh": ""})

    monkeypatch.setattr(frpc, "read_state", read_state)
    found = {row["id"]: (row["status"], row["evidence"]) for row in verify.client_findings(Programs(), CLIENT)}
    port, _foreign_owner, proxies, doors = arguments
    assert (port, proxies, doors) == (574, ["ssh"], {"laptop-ssh": "127.0.0.1:6022"})
    assert found["frp_client.services"] == ("pass", "gateway.test accepted ssh")
    assert found["frp_client.visitors"] == ("pass", "laptop-ssh reach the other end")
    assert found["frp_client.secrets"] == ("pass", "no service relies on allow_users alone")
    assert "frp_client.confinement" in found


def test_refused_tunnels_are_named_with_the_reason() -> None:
    report = frpc.Report("", {"ssh": "", "open": "port not allowed"}, {"a-ssh": "", "a-web": "closed"})
    services, visitors = verify.services_finding(CLIENT, report), verify.visitors_finding(report)
    assert (services["status"], services["evidence"]) == ("fail", "gateway.test did not accept open: port not allowed")
    assert (visitors["status"], visitors["evidence"]) == ("fail", "no way through a-web: closed")


def test_frpc_that_does_not_answer_fails() -> None:
    report = frpc.Report("frpc answers with status 401", {"ssh": "not started"}, {})
    found = verify.services_finding(CLIENT, report)
    assert (found["status"], found["evidence"]) == ("fail", "frpc answers with status 401")


def test_client_without_tunnels_is_skipped() -> None:
    empty, report = {**CLIENT, "services": [], "visitors": []}, frpc.Report("", {}, {})
    found = [
        verify.services_finding(empty, report),
        verify.visitors_finding(report),
        verify.secrets_finding(empty),
    ]
    assert {(row["status"], row["evidence"]) for row in found} == {("skip", "none declared")}


@pytest.mark.parametrize(
    ("service", "shared"),
    [
        ({"allow_users": ["laptop"]}, True),
        ({"allow_users": ["laptop"], "secret_key": "t" * 16}, False),
        ({"allow_users": ["*"]}, False),
        ({}, False),
        ({"remote_port": 6000}, False),
    ],
)
def test_service_with_allow_users_and_shared_secret_is_named(service: dict[str, Any], shared: bool) -> None:
    found = verify.secrets_finding({**CLIENT, "services": [{"name": "ssh", **service}]})
    assert found["status"] == ("warn" if shared else "pass")
    assert found["evidence"].endswith(": ssh") is shared

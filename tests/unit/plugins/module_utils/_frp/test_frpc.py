# SPDX-License-Identifier: GPL-3.0-or-later
"""A frpc that answers as the real one does (its words are from 0.70.1), and ports that behave as its visitors do."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._frp import frpc as frpc_state

JOURNAL = ["journalctl", "--unit=frpc.service", "--lines=200", "--no-pager", "--output=cat"]
LOGGED_IN = "2026-11-21 14:49:59.635 [I] [client/service.go:331] [5f4e] login to server success, get run id [5f4e]\n"
NO_LOGIN = (
    "2026-11-21 14:49:57.512 [W] [client/service.go:322] connect to server error: "
    "token in login doesn't match token from configuration\n"
)
NO_SUCH_SERVICE = (
    "2026-11-21 14:48:01.512 [W] [visitor/stcp.go:75] [5f4e] [tower-ssh] dialRawVisitorConn error: "
    "start new visitor connection error: custom listener for [tower.ssh] doesn't exist\n"
)
CLOSED_BEFORE_THE_ANSWER = (
    "2026-11-22 23:59:01.512 [W] [visitor/stcp.go:75] [5f4e] [tower-ssh] dialRawVisitorConn error: EOF\n"
)


@pytest.fixture
def frpc() -> Iterator[Callable[..., int]]:
    """Serve proxies as /api/status does, to who knows the password `right`; gives the port."""
    servers = []

    def serve(status: dict[str, list[dict[str, str]]]) -> int:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                login = f"Basic {base64.b64encode(b'admin:right').decode()}"
                self.send_response(200 if self.headers["Authorization"] == login else 401)
                self.end_headers()
                self.wfile.write(json.dumps(status).encode())

            def log_message(self, *_words: object) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_port

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def service() -> Iterator[Callable[[Callable[[socket.socket], object]], str]]:
    """Accept connections and do something with each; gives where."""
    listeners = []

    def listen(treat: Callable[[socket.socket], object]) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def accept() -> None:
            while True:
                try:
                    treat(listener.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield listen
    for listener in listeners:
        listener.close()


def info(port: int, journal: str = "", **options: Any) -> frpc_state.Report:
    """Look at frpc on this port, with a journal."""

    def run(command: list[str]) -> tuple[int, str, str]:
        assert command == JOURNAL
        return 0, journal, ""

    password = options.pop("password", "right")
    defaults = {"foreign_owner": nobody, "expected": [], "doors": {}, "timeout": 0, "silence": 0.3}
    return frpc_state.read_state(run, port, **{**defaults, **options}, read_secret=lambda: password)


def nobody(_address: str, _port: int) -> str:
    return ""


def proxy(name: str, status: str = "running", err: str = "") -> dict[str, str]:
    return {"name": name, "type": "stcp", "status": status, "err": err, "local_addr": "127.0.0.1:22"}


def test_accepted_proxies_have_nothing_to_say(frpc):
    result = info(frpc({"stcp": [proxy("ssh")], "tcp": [proxy("web")]}), expected=["ssh", "web"])
    assert (result.error, result.proxies) == ("", {"ssh": "", "web": ""})


def test_a_refused_proxy_is_named_with_the_servers_reason(frpc):
    port = frpc({"stcp": [proxy("ssh")], "tcp": [proxy("web", "start error", "port not allowed")]})
    assert info(port, LOGGED_IN, expected=["ssh", "web"]).proxies == {"ssh": "", "web": "port not allowed"}


def test_without_a_login_the_reason_is_in_the_journal(frpc):
    result = info(frpc({}), LOGGED_IN + NO_LOGIN, expected=["ssh"])
    assert result.error == "no login at the server: token in login doesn't match token from configuration"
    assert result.proxies == {"ssh": "not started"}


def test_a_failed_login_before_a_successful_one_is_ignored(frpc):
    assert info(frpc({}), NO_LOGIN + LOGGED_IN, expected=["ssh"]).error == ""


def test_a_frpc_that_is_not_there_and_a_wrong_password(frpc):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert f"frpc does not answer on port {port}" in info(port).error
    assert info(frpc({}), password="wrong").error == "frpc answers with status 401"


def test_visitor_reaches_a_speaking_and_a_waiting_service(frpc, service):
    open_ends: list[socket.socket] = []
    services = {"speaks": service(lambda peer: peer.sendall(b"SSH-2.0-x\r\n")), "waits": service(open_ends.append)}
    assert info(frpc({}), doors=services).visitors == {"speaks": "", "waits": ""}


@pytest.mark.parametrize("opening", [b"HEAD / HTTP/", b"\x03\x00\x00\x13\x0e\xe0", b"\x00\x00\x00\x66\xfeSMB"])
def test_waiting_service_answers_one_of_the_probes(frpc, service, monkeypatch, opening):
    monkeypatch.setattr(frpc_state, "PATIENCE", 0.2)
    quiet: list[socket.socket] = []

    def answer(peer: socket.socket) -> None:
        """Send an answer only after a request; the first connection gets none."""
        if not quiet:
            quiet.append(peer)
            return
        with peer:
            request = peer.recv(200)
            if request.startswith(opening):
                peer.sendall(b"what it says")

    begun = time.monotonic()
    assert info(frpc({}), doors={"tower-web": service(answer)}, silence=60).visitors == {"tower-web": ""}
    assert time.monotonic() - begun < 30, "nobody waited for the silence to end"


def test_server_that_closes_during_probes_is_unreached(frpc, service, monkeypatch):
    """Close the connection late, as the server does after ten seconds if the other client's machine has lost its power."""
    monkeypatch.setattr(frpc_state, "PATIENCE", 0.1)
    services = {"tower-rdp": service(lambda peer: threading.Timer(0.5, peer.close).start())}
    assert info(frpc({}), LOGGED_IN, doors=services, silence=60).visitors == {
        "tower-rdp": "the connection is closed at once"
    }


def test_closed_connection_of_a_visitor_is_unreached(frpc, service):
    services = {"tower-ssh": service(socket.socket.close)}
    assert info(frpc({}), LOGGED_IN + NO_SUCH_SERVICE, doors=services).visitors == {
        "tower-ssh": "custom listener for [tower.ssh] doesn't exist"
    }
    closed = {"tower-ssh": "the connection is closed at once"}
    assert info(frpc({}), LOGGED_IN, doors=services).visitors == closed
    assert info(frpc({}), LOGGED_IN + CLOSED_BEFORE_THE_ANSWER, doors=services).visitors == closed


def test_a_visitor_that_does_not_listen(frpc):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        place = f"127.0.0.1:{closed.getsockname()[1]}"
    assert info(frpc({}), doors={"tower-ssh": place}).visitors == {"tower-ssh": "Connection refused"}


def test_visitor_that_starts_later_is_reached(frpc, service):
    def greet(peer):
        next(peers)(peer)

    peers = iter([socket.socket.close, lambda peer: peer.sendall(b"hello")])
    services = {"tower-web": service(greet)}
    assert info(frpc({}), doors=services, timeout=5).visitors == {"tower-web": ""}


def test_port_of_another_user_gets_no_password(frpc, service):
    answered: list[socket.socket] = []
    place = service(answered.append)
    places: list[tuple[str, int]] = []

    def mallory(address: str, port: int) -> str:
        places.append((address, port))
        return "the user mallory listens there, and not the service"

    port = frpc({"stcp": [proxy("ssh")]})
    result = info(port, expected=["ssh"], doors={"tower-ssh": place}, foreign_owner=mallory, password=None)
    assert result.error == f"frpc does not answer on port {port}: the user mallory listens there, and not the service"
    assert result.proxies == {"ssh": "not started"}
    assert result.visitors == {"tower-ssh": "the user mallory listens there, and not the service"}
    assert {*places} == {("127.0.0.1", port), ("127.0.0.1", int(place.rpartition(":")[2]))}
    assert answered == []


@pytest.mark.parametrize(
    ("text", "password"),
    [
        (f"FRPC_ADMIN_PASSWORD={'0a' * 32}\n", "0a" * 32),
        (f"FRPC_ADMIN_PASSWORD={'0a' * 31}\n", ""),
        ("root:x:0:0:root:/root:/bin/bash\n", ""),
        ("", ""),
    ],
)
def test_password_of_the_start_is_read(tmp_path, text, password):
    (tmp_path / "admin").write_text(text)
    assert frpc_state.read_password(str(tmp_path / "admin")) == password
    assert frpc_state.read_password(str(tmp_path / "none")) == ""

# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of a server that sends without end, slowly, or elsewhere."""

from __future__ import annotations

import contextlib
import http.server
import signal
import threading
import urllib.error
from collections.abc import Iterator
from email.message import Message
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import download
from ansible_collections.rigwright.workstation.plugins.module_utils._core.download import Unbounded, deadline, read_url

ENDED = threading.Event()
TARGETS = {
    "circle": "circle",
    "local": "file:///etc/hostname",
    "device": "FILE:///dev/zero",
    "text": "data:text/plain,key",
    "ftp": "ftp://127.0.0.1:1/key",
    "no-scheme": "gopher://127.0.0.1/key",
}


class Server(http.server.BaseHTTPRequestHandler):
    """Answers as the path says, until the test has ended."""

    def do_GET(self) -> None:
        kind = self.path[1:]
        with contextlib.suppress(OSError):
            if kind == "headers":
                self.wfile.write(b"HTTP/1.0 200 OK\r\n")
                self.repeat(b"x", 0.05)
            elif kind in ("file", "endless", "slow"):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"key")
                if kind != "file":
                    self.repeat(*((b"x" * 65536, 0) if kind == "endless" else (b"x", 0.05)))
            else:
                self.send_response(302)
                self.send_header("Location", TARGETS.get(kind, "/file"))
                self.end_headers()
                if kind == "moved":
                    self.repeat(b"x" * 65536, 0)

    def repeat(self, block: bytes, seconds: float) -> None:
        while not ENDED.wait(seconds):
            self.wfile.write(block)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    ENDED.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        ENDED.set()
        server.shutdown()


@pytest.mark.parametrize("kind", ["file", "moved"])
def test_a_file_is_read_behind_a_redirection_too(address: str, kind: str) -> None:
    assert read_url(f"{address}/{kind}", limit=3, seconds=60) == b"key"


def test_an_endless_answer_is_refused(address: str) -> None:
    with pytest.raises(Unbounded, match="more than 1048576 bytes"):
        read_url(f"{address}/endless", limit=1 << 20, seconds=60)


@pytest.mark.parametrize("kind", ["slow", "headers"])
def test_a_slow_answer_is_given_up(address: str, kind: str) -> None:
    with pytest.raises(Unbounded, match="did not end within 1 s"):
        read_url(f"{address}/{kind}", limit=1 << 20, seconds=1)


@pytest.mark.parametrize("kind", ["local", "device", "text", "ftp", "no-scheme"])
def test_redirection_leads_to_servers_of_http_alone(address: str, kind: str) -> None:
    with pytest.raises(ValueError, match="it redirects to"):
        read_url(f"{address}/{kind}", limit=9, seconds=60)


@pytest.mark.parametrize("port", [80, 8080])
def test_redirection_from_https_to_http_is_refused(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    opened = []

    def open_url(url: str, **_options: Any) -> None:
        opened.append(url)
        target = f"http://example.org:{port}/key"
        raise urllib.error.HTTPError(target, 302, "Found", Message(), None)

    monkeypatch.setattr(download, "open_url", open_url)
    with pytest.raises(download.Misled, match="never from https to http"):
        read_url("https://example.org/key", limit=9, seconds=60)
    assert opened == ["https://example.org/key"]


def test_redirections_in_a_circle_come_to_an_end(address: str) -> None:
    with pytest.raises(urllib.error.HTTPError, match="302"):
        read_url(f"{address}/circle", limit=9, seconds=60)


def test_a_deadline_that_is_met_leaves_no_timer() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with deadline(60):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert (signal.getitimer(signal.ITIMER_REAL), signal.getsignal(signal.SIGALRM)) == ((0.0, 0.0), before)

# SPDX-License-Identifier: GPL-3.0-or-later
"""docker's API over its socket: what it says, and that everything else is an OSError."""

from __future__ import annotations

import http.server
import json
import socketserver
import threading
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import api as docker_api

ANSWERS = {
    "/info": {"Runtimes": {"runc": {}}},
    "/containers/json": [{"Id": "a1"}, {"Id": "gone"}],
    "/containers/a1/json": {"Name": "/train"},
}


class Api(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = ANSWERS.get(self.path)
        content = json.dumps(found).encode()
        self.send_response(200 if found is not None else 404)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        """Say nothing: a client of a Unix socket has no address to log."""


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(docker_api, "SOCKET", str(tmp_path / "socket"))
    with socketserver.UnixStreamServer(docker_api.SOCKET, Api) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


def test_an_answer_is_read(docker):
    assert docker_api.ask("/info") == {"Runtimes": {"runc": {}}}


def test_a_container_that_has_ended_in_between_is_left_out(docker):
    assert docker_api.running_containers() == [{"Name": "/train"}]


def test_error_status_raises(docker):
    with pytest.raises(OSError, match="docker answers /nothing with 404"):
        docker_api.ask("/nothing")


def test_missing_docker_raises(tmp_path, monkeypatch):
    monkeypatch.setattr(docker_api, "SOCKET", str(tmp_path / "socket"))
    with pytest.raises(FileNotFoundError):
        docker_api.ask("/info")

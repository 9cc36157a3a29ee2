# SPDX-License-Identifier: GPL-3.0-or-later
"""Names and users of containers, from a docker that is a fake, on a real socket."""

from __future__ import annotations

import http.server
import json
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import api
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import containers, proc

ID = "ab" * 32
RUNNING: list[dict[str, Any]] = [
    {"Id": ID, "Names": ["/trainer"], "Labels": {"rigwright.user": "carol", "other": "x"}},
    {"Id": "cd" * 32, "Names": None, "Labels": None},
]


class FakeDocker(http.server.BaseHTTPRequestHandler):
    status = 200
    paths: list[str] = []  # noqa: RUF012
    answers: dict[str, Any] = {}  # noqa: RUF012

    def do_GET(self) -> None:
        self.paths.append(self.path)
        content = json.dumps(self.answers.get(self.path, RUNNING)).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_arguments: Any) -> None:
        pass

    def address_string(self) -> str:
        return "socket"


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[FakeDocker]]:
    path = str(tmp_path / "docker.sock")
    monkeypatch.setattr(api, "SOCKET", path)
    monkeypatch.setattr(FakeDocker, "status", 200)
    monkeypatch.setattr(FakeDocker, "paths", [])
    with socketserver.UnixStreamServer(path, FakeDocker) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield FakeDocker
        server.shutdown()
        thread.join()


def test_names_and_labels_are_written_for_the_sampler(docker: type[FakeDocker], tmp_path: Path) -> None:
    path = tmp_path / "containers.json"
    text = containers.write_names(str(path), "")
    assert json.loads(path.read_text())["containers"] == {
        ID: {"name": "trainer", "user": "carol", "uid": ""},
        "cd" * 32: {"name": "", "user": "", "uid": ""},
    }
    docker.paths.clear()
    path.unlink()
    assert containers.write_names(str(path), text) == text
    assert not path.exists()
    # Of a container that is known nothing more is asked.
    assert docker.paths == ["/containers/json"]


@pytest.mark.parametrize(
    ("user", "of_image", "uid"),
    [
        ("1000", "jovyan", "1000"),
        ("1001:100", "", "1001"),
        ("1000", "1000", ""),
        ("jovyan", "jovyan", ""),
        ("alice", "", ""),
    ],
)
def test_uid_is_that_of_docker_run(
    docker: type[FakeDocker], monkeypatch: pytest.MonkeyPatch, user: str, of_image: str, uid: str
) -> None:
    answers = {
        f"/containers/{ID}/json": {"Config": {"User": user}, "Image": "sha256:1"},
        "/images/sha256:1/json": {"Config": {"User": of_image}},
    }
    monkeypatch.setattr(docker, "answers", answers)
    assert containers.uid_of(ID) == uid


def test_long_label_hides_no_other_container(tmp_path: Path) -> None:
    labels = {"rigwright.user": "x\n" * (1 << 20)}
    found = containers.names_of([{"Id": ID, "Names": ["/a"], "Labels": labels}])
    assert found[ID]["user"] == "x?" * 32


@pytest.mark.parametrize("answer", [{"message": "busy"}, None, [1], [{}], [{"Id": ID, "Names": [], "Labels": [1]}]])
def test_answer_of_another_shape_has_no_containers(
    answer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containers, "ask", lambda _path: answer)
    assert json.loads(containers.write_names(str(tmp_path / "containers.json"), "")) == {"containers": {}}


def test_failing_docker_has_no_containers(docker: type[FakeDocker], tmp_path: Path) -> None:
    docker.status = 500
    containers.write_names(str(tmp_path / "containers.json"), "")
    assert json.loads((tmp_path / "containers.json").read_text()) == {"containers": {}}


def test_missing_docker_has_no_containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "SOCKET", str(tmp_path / "nowhere.sock"))
    containers.write_names(str(tmp_path / "containers.json"), "")
    assert json.loads((tmp_path / "containers.json").read_text()) == {"containers": {}}


def test_missing_directory_ends_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> None:
    monkeypatch.setattr(api, "SOCKET", str(tmp_path / "nowhere.sock"))
    monkeypatch.setattr(containers, "PATH", str(tmp_path / "nowhere/containers.json"))
    assert containers.main() == 1
    assert "cannot be written" in capsys.readouterr().err


def test_both_programs_mean_the_same_file() -> None:
    assert containers.PATH == proc.CONTAINERS

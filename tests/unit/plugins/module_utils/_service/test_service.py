# SPDX-License-Identifier: GPL-3.0-or-later
"""A role that is one service: its files and unit, what is refused, and what its port answers."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._service import service as services
from ansible_collections.rigwright.workstation.plugins.module_utils._service.service import Service

LIMITS = {"interval_s": (1, 3600)}
SERVICE = Service("web_page", "Serve a page", "_web.program", LIMITS, has_port=True, metric="rigwright_web_up")
REQUEST = {
    "interval_s": 15,
    "state": "present",
    "port": 9700,
    "networks": [],
    "listeners": [],
    "hardening": "NoNewPrivileges=yes\n",
}
SHOWN = "Id=rigwright-web-page.service\nNames=rigwright-web-page.service\nActiveState={}\nUnitFileState=enabled\n"


def as_json(value: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(value))
    return found


def plan(**changes: Any) -> dict[str, Any]:
    return as_json(services.plan(SERVICE, {**REQUEST, **changes}).result())


def test_files_and_unit_of_a_service() -> None:
    found = plan()
    files = {file["path"]: file for file in found["files"]}
    assert found["requirements"] == []
    assert files["/usr/local/lib/rigwright/web_page.pyz"]["program"] == "_web.program"
    assert files["/etc/rigwright/web_page.json"]["data"] == {"interval_s": 15, "address": "127.0.0.1", "port": 9700}
    unit = files["/etc/systemd/system/rigwright-web-page.service"]["content"]
    assert "ExecStart=/usr/local/lib/rigwright/web_page.pyz\nDynamicUser=yes" in unit and "NoNewPrivileges=yes" in unit
    (started,) = found["units"]
    assert (started["name"], started["enabled"]) == ("rigwright-web-page.service", True)
    assert {"/etc/rigwright/web_page.json", "/usr/local/lib/rigwright/web_page.pyz"} <= {*started["restart_on"]}


def test_only_named_networks_reach_it() -> None:
    found = plan(networks=["192.168.1.0/24"])
    files = {file["path"]: file for file in found["files"]}
    assert files["/etc/rigwright/web_page.json"]["data"]["address"] == "::"
    assert "192.168.1.0/24" in files["/etc/nftables.d/rigwright/web_page.nft"]["content"]


@pytest.mark.parametrize(
    ("changes", "variable"),
    [
        ({"port": 0}, "web_page_port"),
        ({"interval_s": 3601}, "web_page_interval_s"),
        ({"networks": ["192.168.1.7/24"]}, "web_page_networks"),
        ({"listeners": [{"protocol": "tcp", "port": 9700, "unit": "x.service", "process": "x"}]}, "web_page_port"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], variable: str) -> None:
    assert [row["variable"] for row in plan(**changes)["requirements"]] == [variable]


@pytest.mark.parametrize(("is_due", "units"), [(True, ["stopped"]), (False, [])])
def test_its_own_listener_and_absent_are_no_problem(
    monkeypatch: pytest.MonkeyPatch, is_due: bool, units: list[str]
) -> None:
    monkeypatch.setattr(services, "is_due", lambda _tree, role: is_due and role == "web_page")
    own = {"protocol": "tcp", "port": 9700, "unit": "rigwright-web-page.service", "process": "python3"}
    assert plan(listeners=[own])["requirements"] == []
    gone = plan(state="absent", port=0)
    assert (gone["requirements"], gone["files"], [unit["state"] for unit in gone["units"]]) == ([], [], units)


@pytest.fixture
def port() -> Iterator[int]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'# HELP x\nrigwright_web_up{card="a"} 1\nrigwright_web_uptime 7\n')

        def log_message(self, *_arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def verify(monkeypatch: pytest.MonkeyPatch, port: int, service: Service = SERVICE, **more: str) -> dict[str, Any]:
    """Return the findings by their id; the port is the unit's own unless `foreign_owner` says whose it is."""
    monkeypatch.setattr(
        services.port_owner, "foreign_owner_of", lambda _run, _unit: lambda *_at: more.get("foreign_owner", "")
    )
    host: Any = SimpleNamespace(
        run_command=lambda *_command, **_options: (0, SHOWN.format(more.get("state", "active")), ""),
        run_client=lambda *_command, **_options: (0, "", ""),
    )
    found = services.verify(service, {**REQUEST, "port": port}, host, wait=lambda _seconds: None)
    return {row["id"]: (row["status"], row["evidence"]) for row in found}


def test_the_metric_of_a_running_service_passes(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    found = verify(monkeypatch, port)
    assert found["web_page.unit"] == ("pass", "rigwright-web-page.service is active and enabled")
    assert found["web_page.metric"] == ("pass", 'rigwright_web_up{card="a"} 1')


def test_a_missing_metric_fails(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    without = Service("web_page", "Serve a page", "_web.program", has_port=True, metric="rigwright_web")
    assert verify(monkeypatch, port, without)["web_page.metric"][0] == "fail", "a longer name is another metric"


def test_a_page_without_metrics_is_asked_for(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    plain = Service("web_page", "Serve a page", "_web.program", has_port=True)
    assert verify(monkeypatch, port, plain)["web_page.page"][0] == "pass"


def test_nobody_else_answers_for_it(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    assert verify(monkeypatch, port, foreign_owner="mallory listens there")["web_page.metric"] == (
        "fail",
        "mallory listens there",
    )


def test_an_answer_that_is_no_http_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            for _attempt in range(services.ATTEMPTS):
                connection, _address = listening.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(b"220 mail\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        status, evidence = verify(monkeypatch, listening.getsockname()[1])["web_page.metric"]
    assert status == "fail" and "220 mail" in evidence


def test_a_stopped_service_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    found = verify(monkeypatch, 9, state="failed")
    assert (found["web_page.unit"][0], found["web_page.metric"][0]) == ("fail", "fail")


def test_a_service_without_a_port_has_no_port() -> None:
    quiet = Service("job", "Do something", "_job.program")
    found = services.plan(quiet, {"state": "present", "hardening": "", "listeners": []}).result()
    assert len(found["files"]) == 3 and found["files"][1]["data"] == {}

# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings from what apt, pip and the mirrors of other services answer."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import urls
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._apt import mirror_verify
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.mirror_request import Services
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import mirrors as mirrors_role

from tests.unit.support.plan import run_role

A = "https://a.example/debian"
INDEX = "https://a.example/simple"
TWICE = (
    "W: Target Packages (main/binary-amd64/Packages) is configured multiple times in /etc/apt/sources.list:1"
    " and /etc/apt/sources.list.d/debian.sources:1"
)
PLAN: Any = {"update": ["apt-get", "update"], "states": [f"{A}: fit"], "fit": True}
ALL = Services((A,), INDEX, INDEX, "https://a.example/cloud", "https://hf.example")
PAGES = [f"{INDEX}/pip/", "https://a.example/cloud/conda-forge/noarch/repodata.json", "https://hf.example"]


@pytest.mark.parametrize(("status", "fit", "verdict"), [(0, True, "pass"), (0, False, "warn"), (100, True, "fail")])
def test_update_of_apt(status: int, fit: bool, verdict: str) -> None:
    found = mirror_verify.apt(status, fit, [f"{A}: fit", "https://b.example: dead: refused"])
    assert (found["status"], found["evidence"]) == (
        verdict,
        f"apt-get update ended with status {status}; {A}: fit; https://b.example: dead: refused",
    )


@pytest.mark.parametrize(
    ("error", "status", "shown"),
    [
        ("", "pass", "apt knows every source once"),
        (f"W: other\n{TWICE}\n{TWICE.replace('main', 'contrib')}\n", "warn", TWICE),
    ],
)
def test_sources_that_are_defined_twice(error: str, status: str, shown: str) -> None:
    found = mirror_verify.sources(error)
    assert (found["status"], found["evidence"]) == (status, shown)


@pytest.mark.parametrize(
    ("outcome", "status", "shown"),
    [
        ((0, f"{INDEX}\n", ""), "pass", f"its index is {INDEX}"),
        ((0, "https://other.example/simple\n", ""), "fail", "its index is https://other.example/simple"),
        ((1, "", "/usr/bin/python3: No module named pip\n"), "skip", "pip is not installed"),
    ],
)
def test_index_of_pip(outcome: mirror_verify.Outcome, status: str, shown: str) -> None:
    found = mirror_verify.pip(outcome, INDEX)
    assert (found["status"], found["evidence"]) == (status, shown)


def test_services_that_do_not_answer() -> None:
    found = mirror_verify.services(dict.fromkeys(PAGES, ""))
    assert (found["status"], found["evidence"]) == ("pass", f"{', '.join(PAGES)} answer")
    found = mirror_verify.services({PAGES[0]: "", PAGES[1]: "refused", PAGES[2]: "not found"})
    assert (found["status"], found["evidence"]) == ("fail", f"{PAGES[1]}: refused; {PAGES[2]}: not found")


@pytest.fixture
def page() -> Iterator[tuple[str, list[str]]]:
    """Return the address of pages, of which one is missing, and what asks for them: the name of the client and its password."""
    clients: list[str] = []

    class Page(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            clients.append(f"{self.headers['User-Agent']} {self.headers['Authorization']}")
            self.send_response(404 if self.path == "/missing" else 200)
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with contextlib.closing(server.socket):
        yield f"http://127.0.0.1:{server.server_port}/", clients
        server.shutdown()


@pytest.mark.parametrize(
    ("path", "reason"),
    [("found", ""), ("missing", "Status code was 404 and not [200]: Not Found")],
)
def test_head_of_a_page(page: tuple[str, list[str]], path: str, reason: str) -> None:
    assert mirror_verify.ask(3, f"{page[0]}{path}") == reason


@pytest.mark.parametrize(
    ("netrc", "password"), [("machine 127.0.0.1 login a password b\n", "Basic YTpi"), ("machine\nx", "None")]
)
def test_mirror_is_asked_with_the_passwords_of_a_sound_netrc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: tuple[str, list[str]], netrc: str, password: str
) -> None:
    (tmp_path / "netrc").write_text(netrc)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    url, clients = page
    assert (mirror_verify.ask(3, url), clients) == ("", [f"rigwright {password}"])


@pytest.mark.parametrize(
    "error", [urls.NoSSLError("no ssl"), urls.MissingModuleError("no gzip", ""), ValueError("url")]
)
def test_no_error_of_a_request_ends_the_proof(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_arguments: Any, **_options: Any) -> None:
        raise error

    monkeypatch.setattr(mirror_verify, "open_url", fail)
    assert mirror_verify.ask(3, A) == f"no answer: {error}"


def test_nobody_answers() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert "Connection refused" in mirror_verify.ask(3, f"http://127.0.0.1:{taken.getsockname()[1]}")


def test_only_services_with_a_mirror_are_used() -> None:
    commands: list[str] = []

    def run(command: list[str], **_options: Any) -> mirror_verify.Outcome:
        commands.append(command[0])
        return 0, f"{INDEX}\n", ""

    found = mirror_verify.findings(run, lambda _url: "", ALL, PLAN)
    assert {row["id"]: row["status"] for row in found} == {
        f"mirrors.{name}": "pass" for name in ("apt", "sources", "pip", "services")
    }
    assert commands == ["apt-get", "apt-cache", "python3"]
    assert mirror_verify.findings(run, lambda _url: "", Services((), "", "", "", ""), PLAN) == []


def test_mirrors_are_asked_again_for_their_state_of_now(
    run_module: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"profile": "none", "apt_urls": [A], "pip_url": "", "uv_url": "", "conda_url": "", "hf_endpoint": ""}
    context = {"profiles": {"none": {}}, "archive": "debian"}
    params: list[Any] = []

    def plan_for(_module: object, request: Any) -> Any:
        params.append(request)
        return PLAN

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(mirrors_role, "plan_for", plan_for)
    monkeypatch.setattr(AnsibleModule, "run_command", lambda *_arguments, **_options: (100, "", TWICE))

    request = {**options, "timeout": 10, "check": False, "recheck": False}
    found = run_role(run_module, mirrors_role, {**request, **context}, kind="verify")["findings"]

    assert (params[0]["check"], params[0]["recheck"]) == (True, True)
    assert {row["id"]: row["status"] for row in found} == {"mirrors.apt": "fail", "mirrors.sources": "warn"}

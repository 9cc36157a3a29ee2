# SPDX-License-Identifier: GPL-3.0-or-later
"""The plans of a server and a client, on a host with a real release below a directory and certificates by openssl."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import release_run
from ansible_collections.rigwright.workstation.plugins.module_utils._core.release import RECEIPT, sha256
from ansible_collections.rigwright.workstation.plugins.module_utils._frp import plan
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import frp_client as frp_client_role
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import frp_server as frp_server_role
from ansible_collections.rigwright.workstation.plugins.modules import release_archive, tls_certificate

from tests.unit.support.plan import run_plan

Run = Callable[..., dict[str, Any]]

CHECKSUM = f"sha256:{'0' * 64}"
SERVER: dict[str, Any] = {"token": "a-token-that-nobody-may-see-here", "tls_subject_alt_names": ["gateway.test"]}
CLIENT: dict[str, Any] = {
    "server_address": "gateway.test",
    "server_host": "gateway",
    "token": "a-token-that-nobody-may-see-here",
    "user": "tower",
    "secret_key": "a-secret-that-nobody-may-see",
}


class Host:
    """A host whose releases and certificates are below a directory."""

    def __init__(self, root: Path, run_module: Run) -> None:
        self.root = root
        self.run_module = run_module
        self.opt, self.bin = root / "opt", root / "bin"
        self.pki = root / "frps/pki"
        for directory in (self.opt, self.bin, self.pki.parent):
            directory.mkdir()
        self.managed = False
        self.release = {"version": "1.0", "url": "https://example.org/frp.tar.gz", "checksum": CHECKSUM}

    def context(self, program: str) -> dict[str, Any]:
        return {
            "listeners": [],
            "release": self.release,
            "programs": {str(self.bin / program): program},
            "managed": self.managed,
            "account": "frpc",
            "ca": "-----BEGIN CERTIFICATE-----",
            "offered": {"laptop": ["ssh"]},
            "allow_ports": None,
        }

    def install(self, program: str, user: str) -> None:
        """Put a release in place as an earlier run did."""
        version = self.opt / "frp/1.0"
        version.mkdir(parents=True)
        (version / program).write_text("#!/bin/sh\n")
        (version / program).chmod(0o755)
        receipt = {"archive": CHECKSUM, "url": "", "files": {program: sha256(str(version / program))}}
        (version / RECEIPT).write_text(json.dumps(receipt))
        given = {"name": "frp", "user": user, "install_root": str(self.opt)}
        programs = {str(self.bin / program): program}
        result = self.run_module(release_archive, **given, **self.release, programs=programs)
        assert result["changed"]

    def certify(self) -> None:
        assert self.run_module(tls_certificate, directory=str(self.pki), names=SERVER["tls_subject_alt_names"])[
            "changed"
        ]

    def plan_server(self, **options: Any) -> dict[str, Any]:
        return run_plan(self.run_module, frp_server_role, self.context("frps"), **{**SERVER, **options})

    def plan_client(self, **options: Any) -> dict[str, Any]:
        return run_plan(self.run_module, frp_client_role, self.context("frpc"), **{**CLIENT, **options})


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_module: Run) -> Host:
    found = Host(tmp_path, run_module)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(plan, "PKI", str(found.pki))
    monkeypatch.setitem(release_run.SPEC, "install_root", {"type": "path", "default": str(found.opt)})
    return found


def test_fresh_server_is_due_for_all(host: Host) -> None:
    result = host.plan_server()
    assert (result["requirements"], result["changed"], result["ca_certificate"]) == ([], False, "")
    assert (result["release_due"], result["certificate_due"]) == (True, True)
    assert not host.pki.exists() and list(host.opt.iterdir()) == []


def test_server_with_all_is_due_for_nothing(host: Host) -> None:
    host.install("frps", "frp_server")
    host.certify()
    result = host.plan_server()
    assert (result["release_due"], result["certificate_due"]) == (False, False)
    assert result["ca_certificate"] == (host.pki / "ca.crt").read_text()


def test_change_of_the_request_is_due(host: Host) -> None:
    host.install("frps", "frp_server")
    host.certify()
    assert host.plan_server(tls_subject_alt_names=["other.test"])["certificate_due"]
    host.release = {**host.release, "version": "1.1"}
    assert host.plan_server()["release_due"]
    (host.opt / "frp/1.0/frps").write_text("damaged")
    host.release = {**host.release, "version": "1.0"}
    assert host.plan_server()["release_due"]


def test_release_that_cannot_be_had_does_not_end_the_plan(host: Host) -> None:
    host.release = {"version": "9.9", "url": "", "checksum": ""}
    assert host.plan_server()["release_due"]


def test_absent_server_is_due_for_what_the_role_made(host: Host) -> None:
    result = host.plan_server(state="absent", token="")
    assert (result["requirements"], result["release_due"], result["certificate_due"]) == ([], False, False)
    host.install("frps", "frp_server")
    host.certify()
    assert host.plan_server(state="absent")["certificate_due"] is False, "it is of somebody else"
    host.managed = True
    result = host.plan_server(state="absent")
    assert (result["release_due"], result["certificate_due"]) == (True, True)


def test_bad_server_is_refused(host: Host) -> None:
    names = [row["variable"] for row in host.plan_server(token="short", bind_port=70000)["requirements"]]
    assert names == ["frp_server_token", "frp_server_bind_port"]


def test_client_is_planned(host: Host) -> None:
    visitors = [{"server_user": "laptop", "server_name": "ssh", "bind_port": 6022}]
    result = host.plan_client(services=[{"name": "ssh"}], visitors=visitors)
    assert (result["requirements"], result["release_due"]) == ([], True)
    host.install("frpc", "frp_client")
    assert not host.plan_client()["release_due"]
    assert host.plan_client(state="absent")["release_due"]


def test_bad_client_is_refused(host: Host) -> None:
    visitors = [{"server_user": "laptop", "server_name": "shh", "bind_port": 6022}]
    problems = host.plan_client(token="short", services=[{"name": "web"}], visitors=visitors)["requirements"]
    assert [row["variable"] for row in problems] == ["frp_client_token", "frp_client_services", "frp_client_visitors"]
    assert host.plan_client(state="absent", token="")["requirements"] == []


def test_plan_contains_no_secret(host: Host) -> None:
    output = f"{host.plan_server(dashboard_password='p-that-nobody-may-see')}{host.plan_client()}"
    assert "nobody-may-see" not in output


def test_units_start_with_the_certificate(host: Host) -> None:
    fresh = host.plan_server()
    assert fresh["units"] == [] and [unit["name"] for unit in fresh["units_with_certificate"]] == ["frps.service"]
    host.certify()
    assert host.plan_server()["units"] == fresh["units_with_certificate"]


@pytest.mark.parametrize("managed", [False, True])
def test_a_unit_that_the_role_did_not_make_goes_on(host: Host, managed: bool) -> None:
    host.managed = managed
    for found, unit in (
        (host.plan_server(state="absent"), "frps.service"),
        (host.plan_client(state="absent"), "frpc.service"),
    ):
        assert found["files"] == []
        assert found["units"] == ([{"name": unit, "state": "stopped", "enabled": False}] if managed else [])


def test_plan_lists_files_without_secrets(host: Host) -> None:
    server, client = host.plan_server(), host.plan_client()
    paths = [file["path"] for file in server["files"] + client["files"]]
    assert paths == [plan.SERVER_UNIT, "/etc/nftables.d/rigwright/frp_server.nft", "/etc/frpc/ca.crt", plan.CLIENT_UNIT]
    assert client["files"][0]["content"] == "-----BEGIN CERTIFICATE-----"
    assert host.plan_server(networks=["10.0.0.1/8"])["files"] == [], "the request is refused"

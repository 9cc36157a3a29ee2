# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of frps and frpc that have secrets, from the options of the roles as their argument specs fill them."""

from __future__ import annotations

import tomllib
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._roles import frp_client, frp_server
from ansible_collections.rigwright.workstation.plugins.plugin_utils._formats import to_toml
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_request import options_of, request_of

from harness.sandbox.lab import ROOT

TOKEN = "a-token-that-nobody-may-see-here"
CONTEXT = {"programs": {"/usr/local/bin/frps": "frps"}, "account": "frpc"}


def files(role: Any, **options: Any) -> dict[str, dict[str, Any]]:
    name = role.__name__.rpartition(".")[2]
    values = {f"{name}_{option}": value for option, value in {"token": TOKEN, **options}.items()}
    request, secrets = request_of(name, options_of(str(ROOT / "roles" / name)), values)
    return {file["path"]: file for file in role.secret_files({**request, **secrets, **CONTEXT})}


def config(file: dict[str, Any]) -> dict[str, Any]:
    return tomllib.loads(to_toml(file["data"]))


def test_server_asks_for_tls_and_opens_no_port_of_clients() -> None:
    found = files(frp_server)
    assert found["/etc/frps/token"] == {
        "path": "/etc/frps/token",
        "content": TOKEN,
        "mode": "0600",
        "secret": True,
    }
    frps = found["/etc/frps/frps.toml"]
    assert (frps["mode"], frps["secret"], frps["validate"]) == ("0600", True, "/usr/local/bin/frps verify -c %s")
    options = config(frps)
    assert options["transport"]["tls"]["force"] is True
    assert options["allowPorts"] == [{"start": 1, "end": 0}]
    assert options["auth"]["tokenSource"]["file"]["path"] == "/run/credentials/frps.service/token"
    assert TOKEN not in str(frps) and "webServer" not in options


def test_server_has_the_dashboard_and_the_options_of_the_user() -> None:
    extra = {"transport": {"tls": {"force": False}, "maxPoolCount": 3}, "detailedErrorsToClient": False}
    ports = [{"start": 6000, "end": 6010}]
    found = files(frp_server, dashboard_password="sixteen letters!", allow_ports=ports, extra=extra)
    options = config(found["/etc/frps/frps.toml"])
    assert (options["webServer"]["password"], options["webServer"]["user"]) == ("sixteen letters!", "admin")
    assert (options["enablePrometheus"], options["allowPorts"]) == (True, ports)
    assert options["transport"]["maxPoolCount"] == 3 and options["transport"]["tls"]["force"] is False
    assert options["transport"]["tls"]["keyFile"] == "/run/credentials/frps.service/key"
    assert options["detailedErrorsToClient"] is False


def test_client_has_its_tunnels_in_a_file_that_a_reload_reads() -> None:
    services = [{"name": "ssh"}, {"name": "web", "local_port": 8080, "remote_port": 6001}]
    visitors = [{"server_user": "laptop", "server_name": "ssh", "bind_port": 6022}]
    found = files(
        frp_client,
        server_address="gateway.test",
        server_host="gateway",
        user="tower",
        secret_key="a-secret-that-nobody-may-see",
        services=services,
        visitors=visitors,
        extra={"log": {"level": "warn"}},
    )
    assert {(file["mode"], file["group"], file["secret"]) for file in found.values()} == {("0640", "frpc", True)}
    frpc = config(found["/etc/frpc/frpc.toml"])
    assert (frpc["user"], frpc["serverAddr"], frpc["loginFailExit"]) == ("tower", "gateway.test", False)
    assert frpc["webServer"]["password"] == "{{ .Envs.FRPC_ADMIN_PASSWORD }}"
    assert frpc["log"] == {"disablePrintColor": True, "level": "warn"}
    tunnels = config(found["/etc/frpc/conf.d/tunnels.toml"])
    assert [proxy["type"] for proxy in tunnels["proxies"]] == ["stcp", "tcp"]
    assert tunnels["proxies"][0]["secretKey"] == tunnels["visitors"][0]["secretKey"] == "a-secret-that-nobody-may-see"
    assert found["/etc/frpc/token"]["content"] == TOKEN


def test_absent_role_has_no_file_with_secrets() -> None:
    assert files(frp_server, state="absent") == files(frp_client, state="absent") == {}

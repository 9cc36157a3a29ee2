# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use a frp server as its clients do, ask a frp client for its tunnels, and return what was found."""

from __future__ import annotations

import base64
import hashlib
import http.client
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._frp import frpc
from ansible_collections.rigwright.workstation.plugins.module_utils._frp.plan import PKI
from ansible_collections.rigwright.workstation.plugins.module_utils._frp.tunnels import tunnels
from ansible_collections.rigwright.workstation.plugins.module_utils._system import sandboxing

Params = t.Mapping[str, t.Any]
Run = t.Callable[..., tuple[int, str, str]]

# Where a server that listens on all addresses is reached from the host itself.
OWN_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - looked up, not bound
ADDRESS = re.compile(r"^[0-9.]+$|:")
TIMEOUT = 10
# The status of a server that does not answer.
NO_ANSWER = -1


def server_findings(run: Run, request: Params) -> list[Finding]:
    """Return the findings on a server."""
    return [
        tls_finding(run, request),
        dashboard_finding(request),
        sandboxing.check(run, "frp_server", ["frps.service"]),
    ]


def tls_finding(run: Run, request: Params) -> Finding:
    """Open a TLS connection as a client that trusts the private CA."""
    host, port = request["bind_address"], request["bind_port"]
    name = next(iter(request["tls_subject_alt_names"]), "")
    check = "-verify_ip" if ADDRESS.search(name) else "-verify_hostname"
    trust = ["-CAfile", f"{PKI}/ca.crt", "-verify_return_error", check, name]
    connect = ["openssl", "s_client", "-connect", f"{OWN_ADDRESS.get(host, host)}:{port}"]
    # Q ends the client.
    status, _out, _err = run([*connect, *trust], data="Q")
    return finding(
        "frp_server.tls",
        "pass" if status == 0 else "fail",
        f"openssl s_client to port {port}, certificate for {name} by the private CA: exit status {status}",
        "read `journalctl -u frps` and run the role again",
    )


def dashboard_finding(request: Params) -> Finding:
    """Ask the dashboard for its metrics with the password, and with a wrong one."""
    remedy = "set frp_server_dashboard_password"
    if not request["dashboard_password"]:
        return finding("frp_server.dashboard", "skip", "the dashboard is off", remedy)
    answers = [metrics_status(request, password) for password in (request["dashboard_password"], "wrong")]
    return finding(
        "frp_server.dashboard",
        "pass" if answers == [200, 401] else "fail",
        f"metrics with the password and with a wrong one: {', '.join(map(str, answers))}",
        remedy,
    )


def metrics_status(request: Params, password: str) -> int:
    """Return the status of the answer, or NO_ANSWER."""
    login = base64.b64encode(f"{request['dashboard_user']}:{password}".encode()).decode()
    # http.client uses no proxy of the environment, as a connection to loopback requires.
    connection = http.client.HTTPConnection(request["dashboard_address"], request["dashboard_port"], timeout=TIMEOUT)
    try:
        connection.request("GET", "/metrics", headers={"Authorization": f"Basic {login}"})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return NO_ANSWER
    finally:
        connection.close()


def client_findings(run: Run, request: Params) -> list[Finding]:
    """Return the findings on a client."""
    wanted = tunnels(request["services"], request["visitors"], request["secret_key"], request["allow_users"])
    report = frpc.look(
        run,
        request["admin_port"],
        admin_password(request["hostname"], request["token"]),
        [proxy["name"] for proxy in wanted["proxies"]],
        {visitor["name"]: f"{visitor['bindAddr']}:{visitor['bindPort']}" for visitor in wanted["visitors"]},
    )
    return [
        services_finding(request, report),
        visitors_finding(request, report),
        secrets_finding(request),
        sandboxing.check(run, "frp_client", [frpc.UNIT]),
    ]


def admin_password(hostname: str, token: str) -> str:
    """Return the password of frpc's own interface, as vars/main.yml of the role computes it."""
    return hashlib.sha256(f"frpc admin {hostname}{token}".encode()).hexdigest()


def services_finding(request: Params, report: frpc.Report) -> Finding:
    refused = [f"{name}: {why}" for name, why in report.proxies.items() if why]
    server = request["server_address"]
    return finding(
        "frp_client.services",
        "fail" if report.error or refused else "pass" if request["services"] else "skip",
        report.error
        if report.error
        else f"{server} did not accept {'; '.join(refused)}"
        if refused
        else f"{server} accepted {', '.join(report.proxies)}"
        if request["services"]
        else "none declared",
        "do what the reason says; for more, see `journalctl -u frpc` and, at the server, `journalctl -u frps`",
    )


def visitors_finding(request: Params, report: frpc.Report) -> Finding:
    unreached = [f"{name}: {why}" for name, why in report.visitors.items() if why]
    return finding(
        "frp_client.visitors",
        "fail" if unreached else "pass" if request["visitors"] else "skip",
        f"no way through {'; '.join(unreached)}"
        if unreached
        else f"{', '.join(report.visitors)} reach the other end"
        if request["visitors"]
        else "none declared",
        "see that server_user and server_name are right, and that the other client runs, offers the service, and has the same secret",
    )


def secrets_finding(request: Params) -> Finding:
    """Name services that rely on allow_users alone.

    Every client with the token can call itself by the name of another, so a secret of its own alone keeps clients out.
    """
    own = tunnels(request["services"], [], allow_users=request["allow_users"])["proxies"]
    shared = [proxy["name"] for proxy in own if proxy.get("secretKey") == "" and "*" not in proxy["allowUsers"]]
    return finding(
        "frp_client.secrets",
        "warn" if shared else "pass" if request["services"] else "skip",
        "allow_users with the secret of all services, so any client can call itself by an allowed name: "
        + ", ".join(shared)
        if shared
        else "no service relies on allow_users alone"
        if request["services"]
        else "none declared",
        "give each of these services a secret_key of its own, and the same one to its visitors",
    )

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use a frp server as its clients do, ask a frp client for its tunnels, and return what was found."""

from __future__ import annotations

import base64
import http.client
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._frp import frpc, server_ports
from ansible_collections.rigwright.workstation.plugins.module_utils._frp.plan import PKI
from ansible_collections.rigwright.workstation.plugins.module_utils._frp.tunnels import NO_PORT, tunnels
from ansible_collections.rigwright.workstation.plugins.module_utils._system import port_owner, sandboxing

Params = t.Mapping[str, t.Any]
Run = t.Callable[..., tuple[int, str, str]]

# Where a server that listens on all addresses is reached from the host itself.
OWN_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - looked up, not bound
ADDRESS = re.compile(r"^[0-9.]+$|:")
TIMEOUT = 10
SERVER_UNIT = "frps.service"
# The status of a server that does not answer.
NO_ANSWER = -1


def server_findings(run: Run, request: Params) -> list[Finding]:
    """Return the findings on a server."""
    return [
        tls_finding(run, request),
        dashboard_finding(request, port_owner.foreign_owner_of(run, SERVER_UNIT)),
        sandboxing.check(run, "frp_server", [SERVER_UNIT]),
    ]


def tls_finding(run: Run, request: Params) -> Finding:
    """Open a TLS connection as a client that trusts the private CA."""
    own = server_ports.ports(server_ports.config_of(request))[0]
    host, port = own.address, own.number
    name = next(iter(request["tls_subject_alt_names"]), "")
    check = "-verify_ip" if ADDRESS.search(name) else "-verify_hostname"
    trust = ["-CAfile", f"{PKI}/ca.crt", "-verify_return_error", check, name]
    connect = ["openssl", "s_client", "-connect", f"{OWN_ADDRESS.get(host, host)}:{port}"]
    # Q ends the client.
    status, out, _err = run([*connect, *trust], data="Q")
    verified = status == 0 and "Verify return code: 0 (ok)" in out
    return finding(
        "frp_server.tls",
        "pass" if verified else "fail",
        f"openssl s_client to port {port}, certificate for {name} by the private CA: exit status {status}",
        "read `journalctl -u frps` and run the role again",
    )


def dashboard_finding(request: Params, foreign_owner: port_owner.ForeignOwner) -> Finding:
    """Ask the dashboard for its metrics with the password, and with a wrong one."""
    remedy = "set frp_server_dashboard_password"
    if not request["dashboard_password"]:
        return finding("frp_server.dashboard", "skip", "the dashboard is off", remedy)
    place = {
        "addr": request["dashboard_address"],
        "port": request["dashboard_port"],
        "user": request["dashboard_user"],
        "password": request["dashboard_password"],
        **((request.get("extra") or {}).get("webServer") or {}),
    }
    problem = foreign_owner(place["addr"], int(place["port"]))
    if problem:
        return finding(
            "frp_server.dashboard",
            "fail",
            f"nothing was sent to port {place['port']}: {problem}",
            "stop that program, and see `journalctl -u frps`",
        )
    answers = [metrics_status(place, password) for password in (place["password"], "wrong")]
    return finding(
        "frp_server.dashboard",
        "pass" if answers == [200, 401] else "fail",
        f"metrics with the password and with a wrong one: {', '.join(map(str, answers))}",
        remedy,
    )


def metrics_status(place: Params, password: str) -> int:
    """Return the status of the answer, or NO_ANSWER."""
    login = base64.b64encode(f"{place['user']}:{password}".encode()).decode()
    # http.client uses no proxy of the environment, as a connection to loopback requires.
    connection = http.client.HTTPConnection(place["addr"], int(place["port"]), timeout=TIMEOUT)
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
    report = frpc.read_state(
        run,
        request["admin_port"],
        port_owner.foreign_owner_of(run, frpc.UNIT),
        [proxy["name"] for proxy in wanted["proxies"]],
        {
            visitor["name"]: f"{visitor['bindAddr']}:{visitor['bindPort']}"
            for visitor in wanted["visitors"]
            if is_tried(visitor)
        },
    )
    return [
        services_finding(request, report),
        visitors_finding(report, [visitor["name"] for visitor in wanted["visitors"] if not is_tried(visitor)]),
        secrets_finding(request),
        admin_port_finding(request["admin_port"], port_owner.first_open_port(), not report.error),
        sandboxing.check(run, "frp_client", [frpc.UNIT]),
    ]


def is_tried(visitor: Params) -> bool:
    """Return whether a connection to a visitor can be opened: UDP has none, and one to which others fall back listens nowhere."""
    return visitor["type"] != "sudp" and visitor["bindPort"] != NO_PORT


def admin_port_finding(port: int, first: int, answers: bool) -> Finding:
    """Name a port that any user may take while frpc does not run: from *first* on."""
    return finding(
        "frp_client.admin_port",
        ("pass" if answers else "skip") if port < first else "warn",
        f"only root and frpc can bind port {port} of frpc's own interface"
        if port < first
        else f"any user can take port {port} while frpc does not run, and frpc cannot start again then",
        f"set frp_client_admin_port to a port below {min(first, 1024)}, or leave it out"
        if first > 1
        else "raise the sysctl net.ipv4.ip_unprivileged_port_start",
    )


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


def visitors_finding(report: frpc.Report, untried: t.Sequence[str] = ()) -> Finding:
    """Return the finding on visitors.

    :param untried: those to which no connection can be opened.
    """
    unreached = [f"{name}: {why}" for name, why in report.visitors.items() if why]
    evidence = [
        f"no way through {'; '.join(unreached)}" if unreached else "",
        f"{', '.join(report.visitors)} reach the other end" if report.visitors and not unreached else "",
        f"not proven, since no connection can be opened: {', '.join(untried)}" if untried else "",
    ]
    return finding(
        "frp_client.visitors",
        "fail" if unreached else "pass" if report.visitors else "skip",
        "; ".join(filter(None, evidence)) or "none declared",
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

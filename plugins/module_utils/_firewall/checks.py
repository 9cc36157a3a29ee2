# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reasons to refuse a firewall on this facts: invalid networks and ports, lockouts, and rules that nft refuses. Pure."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Listener
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import rules, table
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import ssh_ports as ssh
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.plan import (
    Facts,
    Opened,
    covers,
    is_loopback,
)

SSH_UNITS = ("ssh.service", "sshd.service")


# Seconds in which a new connection has to be possible.
WAIT = (10, 600)


def wait_problems(seconds: int) -> list[Problem]:
    """Return the problem of a wait for the confirmation of new rules."""
    if WAIT[0] <= seconds <= WAIT[1]:
        return []
    text = "is not between 10 and 600: a new connection would be too late, or a lockout too long"
    return [problem("firewall_confirm_seconds", text, "leave it at 60, or choose a number from 10 to 600")]


def requirements(request: table.Request, facts: Facts) -> list[Problem]:
    """Return the problems of the request on this facts."""
    wrong = table.problems(request)
    found = [problem(name, f"is not right: {error}", "correct it") for name, error in wrong]
    if facts.no_kernel:
        text = f"is impossible here: nft prints {facts.no_kernel}"
        found.append(
            problem("firewall_state", text, "run a kernel with nf_tables, or give the container CAP_NET_ADMIN")
        )
    elif facts.refusal:
        text = f"is impossible with the files in {rules.FRAGMENTS}: {facts.refusal}"
        found.append(
            problem("firewall_state", text, "correct or remove that file; the former rules are still in force")
        )
    if facts.outside:
        text = f"would let in every host behind {', '.join(facts.outside)}"
        remedy = "name the bridges of containers one by one, without the star"
        found.append(problem("firewall_bridges", text, remedy))
    # The check for lockouts needs valid networks and ports.
    return found if wrong else found + _lockouts(request, facts)


def _lockouts(request: table.Request, facts: Facts) -> list[Problem]:
    networks = rules.parse_networks(request.ssh_networks)
    ports = {*facts.ssh_ports, *request.ssh_ports}
    found = []
    if facts.connection:
        client, port = str(ssh.plain(facts.connection.client)), facts.connection.port
        knows_port = port in ports
        if not _allowed(request, client, port) and not (knows_port and ssh.lets_in(client, networks)):
            text = f"would lock out Ansible's own connection, from {client} to port {port}"
            wanted = f"{client}/{32 if '.' in client else 128}"
            remedy = f"add {wanted}, or the network that contains it" if knows_port else f"add port {port}"
            found.append(problem("firewall_ssh_networks" if knows_port else "firewall_ssh_ports", text, remedy))
    listening = {row["port"] for row in facts.listeners if _is_sshd(row) and not is_loopback(row["address"])}
    missing = sorted(port for port in listening - ports if not covers(_allow(request).get("tcp", []), port))
    if missing:
        named = ", ".join(map(str, missing))
        text = f"would close port {named}, on which sshd listens and which its files do not name"
        found.append(problem("firewall_ssh_ports", text, f"add {named}, or stop that sshd"))
    return found


def _is_sshd(row: Listener) -> bool:
    return row["protocol"] == "tcp" and row["process"] == "sshd" and row["unit"] in SSH_UNITS


def _allow(request: table.Request) -> Opened:
    found: Opened = {}
    for row in request.allow:
        if row["networks"]:
            for protocol, ranges in table.row_ports(row).items():
                found.setdefault(protocol, []).extend(ranges)
    return found


def _allowed(request: table.Request, client: str, port: int) -> bool:
    return any(
        covers(table.row_ports(row)["tcp"], port) and ssh.lets_in(client, rules.parse_networks(row["networks"]))
        for row in request.allow
    ) or ssh.lets_in(client, [])

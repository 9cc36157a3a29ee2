# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Problems of a request for a firewall on this host, and the findings. Pure."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import (
    Finding,
    Problem,
    finding,
    problem,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import rules, table
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import ssh_ports as ssh

SSH_UNITS = ("ssh.service", "sshd.service")
# The listeners of an unchanged host of the distribution for its network segment: local names (LLMNR and multicast DNS).
OWN_SERVICES = frozenset(
    (
        ("tcp", 5355, "systemd-resolved.service"),
        ("udp", 5355, "systemd-resolved.service"),
        ("udp", 5353, "systemd-resolved.service"),
        ("udp", 5353, "avahi-daemon.service"),
    )
)
CHAIN = re.compile(r"\s*chain (\w+) \{")
PORTS = re.compile(r"\b(tcp|udp) dport (\{[^}]*\}|[\d-]+)(?=.*\b(?:accept|jump)\b)")

Opened = dict[str, list[rules.Range]]


@dataclasses.dataclass(frozen=True)
class Host:
    """Facts of the host. ``text``: the planned rules with all included files. ``trial``: the table that they give in a network namespace
    of their own, None without nft. ``refusal``: why nft refuses them. ``in_force``: the table of the kernel. ``confirmed_is_current``:
    whether the planned rules are the confirmed ones, which boots and declarations load."""

    text: str = ""
    ssh_ports: t.Sequence[int] = (22,)
    connection: t.Mapping[str, t.Any] | None = None
    listeners: t.Sequence[t.Mapping[str, t.Any]] = ()
    own_addresses: t.Collection[str] = ()
    passing_ports: tuple[int, int] = (32768, 60999)
    outside: t.Sequence[str] = ()
    installed: bool = True
    no_kernel: str = ""
    refusal: str = ""
    trial: t.Sequence[t.Any] | None = None
    in_force: t.Sequence[t.Any] = ()
    unconfirmed: bool = False
    program_is_current: bool = True
    confirmed_is_current: bool = True
    units_are_up: bool = True
    others: t.Sequence[str] = ()
    docker_lost: bool = False


def must_load(host: Host) -> bool:
    """Return whether the kernel has other rules than the files, or would have after a boot."""
    differs = host.trial is None or list(host.trial) != list(host.in_force)
    return differs or host.unconfirmed or not host.program_is_current or not host.confirmed_is_current


def requirements(request: table.Request, host: Host) -> list[Problem]:
    """Return the problems of the request on this host."""
    wrong = table.problems(request)
    found = [problem(name, f"is not right: {error}", "correct it") for name, error in wrong]
    if host.no_kernel:
        text = f"is impossible here: nft prints {host.no_kernel}"
        found.append(
            problem("firewall_state", text, "run a kernel with nf_tables, or give the container CAP_NET_ADMIN")
        )
    elif host.refusal:
        text = f"is impossible with the files in {table.FRAGMENTS}: {host.refusal}"
        found.append(
            problem("firewall_state", text, "correct or remove that file; the former rules are still in force")
        )
    if host.outside:
        text = f"would let in every host behind {', '.join(host.outside)}"
        remedy = "name the bridges of containers one by one, without the star"
        found.append(problem("firewall_bridges", text, remedy))
    # The check for lockouts needs valid networks and ports.
    return found if wrong else found + _lockouts(request, host)


def _lockouts(request: table.Request, host: Host) -> list[Problem]:
    networks = rules.parse_networks(request.ssh_networks)
    ports = {*host.ssh_ports, *request.ssh_ports}
    found = []
    if host.connection:
        client, port = str(ssh.plain(host.connection["client"])), host.connection["port"]
        knows_port = port in ports
        if not _allowed(request, client, port) and not (knows_port and ssh.lets_in(client, networks)):
            text = f"would lock out Ansible's own connection, from {client} to port {port}"
            wanted = f"{client}/{32 if '.' in client else 128}"
            remedy = f"add {wanted}, or the network that contains it" if knows_port else f"add port {port}"
            found.append(problem("firewall_ssh_networks" if knows_port else "firewall_ssh_ports", text, remedy))
    listening = {row["port"] for row in host.listeners if _is_sshd(row) and not _is_loopback(row["address"])}
    missing = sorted(port for port in listening - ports if not _covers(_allow(request).get("tcp", []), port))
    if missing:
        named = ", ".join(map(str, missing))
        text = f"would close port {named}, on which sshd listens and which its files do not name"
        found.append(problem("firewall_ssh_ports", text, f"add {named}, or stop that sshd"))
    return found


def findings(host: Host) -> list[Finding]:
    """Return what the user should know."""
    opened = opened_by(host.text)
    closed = [
        row for row in host.listeners if _is_for_others(row, host) and not _covers(opened[row["protocol"]], row["port"])
    ]
    names = _listed(row for row in closed if not _is_own(row))
    own = _listed(row for row in closed if _is_own(row))
    silent = _silent(host)
    return [
        _finding(
            "undeclared",
            not names,
            f"listens, and no other host can reach it: {', '.join(names)}"
            if names
            else "all listeners are declared" + (f", or the distribution's own: {', '.join(own)}" if own else ""),
            "declare it in firewall_allow, a container's port in firewall_containers, or have it listen on loopback",
        ),
        _finding(
            "unused",
            not silent,
            f"open, and nothing listens there: {', '.join(silent)}" if silent else "every open port has a listener",
            "start the service, or remove the declaration of its port",
        ),
        _finding(
            "others",
            not host.others,
            f"another firewall is active: {' and '.join(host.others)}"
            if host.others
            else "no other firewall is active",
            "each of them drops packets: open the port in both, or disable the other one",
        ),
        _finding(
            "docker",
            not host.docker_lost,
            "docker runs without its own rules" if host.docker_lost else "docker's own rules are not missing",
            "a program has flushed them: systemctl restart docker",
        ),
    ]


def in_force(host: Host) -> Finding:
    """Return the finding on the rules in force, now and after the next boot."""
    wrong = [
        *([f"nft refuses the files: {host.refusal}"] if host.refusal else []),
        *([] if host.in_force else ["the table does not exist"]),
        *(["a change waits for its confirmation, or nobody confirmed it"] if host.unconfirmed else []),
        *(["the table differs from the files"] if host.in_force and not host.refusal and must_load(host) else []),
        *([] if host.units_are_up else ["rigwright-firewall.service or its path is not enabled and active"]),
    ]
    evidence = "; ".join(wrong) or "the table in force is that of the files"
    remedy = "run the role again; `journalctl -u rigwright-firewall` has the reason"
    return finding("firewall.in_force", "fail" if wrong else "pass", evidence, remedy)


def opened_by(text: str, chains: t.Collection[str] = ("input", "declared")) -> Opened:
    """Return the ports that rules of these chains open to any network."""
    found: Opened = {protocol: [] for protocol in rules.PROTOCOLS}
    chain = ""
    for line in text.splitlines():
        named = CHAIN.match(line)
        chain = named[1] if named else chain
        if chain in chains and not line.lstrip().startswith("#"):
            for protocol, ports in PORTS.findall(line):
                numbers = re.findall(r"\b(\d+)(?:-(\d+))?", ports)
                found[protocol] += [(int(first), int(last or first)) for first, last in numbers]
    return found


def _silent(host: Host) -> list[str]:
    """Return open ports without a listener. Ranges do not count: some of their ports are expected to be free."""
    listening = {(row["protocol"], row["port"]) for row in host.listeners}
    return [
        f"{protocol} {first}"
        for protocol, ranges in opened_by(host.text, ("declared",)).items()
        for first, last in rules.merged(set(ranges))
        for first in ([first] if first == last else [])
        if (protocol, first) not in listening
    ]


def _is_for_others(row: t.Mapping[str, t.Any], host: Host) -> bool:
    low, high = host.passing_ports
    passing = row["protocol"] == "udp" and low <= row["port"] <= high
    return not passing and not _is_loopback(row["address"]) and row["address"] not in host.own_addresses


def _is_own(row: t.Mapping[str, t.Any]) -> bool:
    return (row["protocol"], row["port"], row["unit"]) in OWN_SERVICES


def _listed(rows: t.Iterable[t.Mapping[str, t.Any]]) -> list[str]:
    found = {f"{row['protocol']} {row['port']} ({row['process'] or 'unknown'})" for row in rows}
    return sorted(found, key=_by_port)


def _is_loopback(address: str) -> bool:
    return bool(ipaddress.ip_address(address).is_loopback)


def _is_sshd(row: t.Mapping[str, t.Any]) -> bool:
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
        _covers(table.row_ports(row)["tcp"], port) and ssh.lets_in(client, rules.parse_networks(row["networks"]))
        for row in request.allow
    ) or ssh.lets_in(client, [])


def _covers(ranges: t.Iterable[rules.Range], port: int) -> bool:
    return any(first <= port <= last for first, last in ranges)


def _by_port(name: str) -> tuple[int, str]:
    return int(name.split()[1]), name


def _finding(name: str, good: bool, evidence: str, remedy: str) -> Finding:
    return finding(f"firewall.{name}", "pass" if good else "warn", evidence, remedy)

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Findings of the role firewall: undeclared listeners, unused declarations, other firewalls, and the rules in force. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import (
    Finding,
    Problem,
    finding,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Listener
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import rules
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.plan import (
    Facts,
    Opened,
    covers,
    is_loopback,
    must_load,
)

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


def findings(facts: Facts) -> list[Finding]:
    """Return what the user should know."""
    opened = opened_by(facts.text)
    closed = [
        row
        for row in facts.listeners
        if _is_for_others(row, facts) and not covers(opened[row["protocol"]], row["port"])
    ]
    names = _listed(row for row in closed if not _is_own(row))
    own = _listed(row for row in closed if _is_own(row))
    silent = _silent(facts)
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
            not facts.others and not facts.unread,
            "; ".join(
                [f"another firewall is active: {' and '.join(facts.others)}"] * bool(facts.others)
                + [f"not read: {' and '.join(facts.unread)}"] * bool(facts.unread)
            )
            or "no other firewall is active",
            "; ".join(
                ["each of them drops packets: open the port in both, or disable the other one"] * bool(facts.others)
                + list(facts.unread.values())
            ),
        ),
        _finding(
            "bridges",
            not facts.unknown_bridges,
            f"let in, and neither a port nor the name says what is behind: {', '.join(facts.unknown_bridges)}"
            if facts.unknown_bridges
            else "the bridges that are let in are of containers and virtual machines",
            "name the bridges of containers in firewall_bridges, without the star, if other machines are behind this one",
        ),
        _finding(
            "docker",
            not facts.docker_lost,
            "docker runs without its own rules" if facts.docker_lost else "docker's own rules are not missing",
            "a program has flushed them: systemctl restart docker",
        ),
    ]


def in_force(facts: Facts) -> Finding:
    """Return the finding on the rules in force, now and after the next boot."""
    wrong = [
        *([f"nft refuses the files: {facts.refusal}"] if facts.refusal else []),
        *([] if facts.in_force else ["the table does not exist"]),
        *(["a change waits for its confirmation, or nobody confirmed it"] if facts.unconfirmed else []),
        *(["the table differs from the files"] if facts.in_force and not facts.refusal and must_load(facts) else []),
        *([] if facts.units_are_up else ["rigwright-firewall.service or its path is not enabled and active"]),
    ]
    evidence = "; ".join(wrong) or "the table in force is that of the files"
    remedy = "run the role again; `journalctl -u rigwright-firewall` has the reason"
    return finding("firewall.in_force", "fail" if wrong else "pass", evidence, remedy)


def request(problems: t.Sequence[Problem]) -> Finding:
    """Return the finding on the request."""
    return finding(
        "firewall.request",
        "fail" if problems else "pass",
        "; ".join(f"{row['variable']} {row['problem']}" for row in problems) or "the request has no problem",
        "; ".join(row["remedy"] for row in problems),
    )


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


def _silent(facts: Facts) -> list[str]:
    """Return open ports without a listener. Ranges do not count: some of their ports are expected to be free."""
    listening = {(row["protocol"], row["port"]) for row in facts.listeners}
    return [
        f"{protocol} {first}"
        for protocol, ranges in opened_by(facts.text, ("declared",)).items()
        for first, last in rules.merged(set(ranges))
        for first in ([first] if first == last else [])
        if (protocol, first) not in listening
    ]


def _is_for_others(row: Listener, facts: Facts) -> bool:
    low, high = facts.passing_ports
    passing = row["protocol"] == "udp" and low <= row["port"] <= high
    return not passing and not is_loopback(row["address"]) and row["address"] not in facts.own_addresses


def _is_own(row: Listener) -> bool:
    return (row["protocol"], row["port"], row["unit"]) in OWN_SERVICES


def _listed(rows: t.Iterable[Listener]) -> list[str]:
    found = {f"{row['protocol']} {row['port']} ({row['process'] or 'unknown'})" for row in rows}
    return sorted(found, key=_by_port)


def _by_port(name: str) -> tuple[int, str]:
    return int(name.split()[1]), name


def _finding(name: str, good: bool, evidence: str, remedy: str) -> Finding:
    return finding(f"firewall.{name}", "pass" if good else "warn", evidence, remedy)

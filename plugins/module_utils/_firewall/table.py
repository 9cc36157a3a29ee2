# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table ``inet rigwright`` as a file for nftables, and the validation of a request for it. Pure.

A packet that this table drops is dropped, whatever other tables say (docker, fail2ban, a user's own). A packet that it accepts still passes
through those. So the table needs no chain or order of theirs, and they can be flushed and created again at any time.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import rules
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.firewall_options import FirewallAllow

TABLE = ("inet", "rigwright")
RULES = "/etc/nftables.d/rigwright.nft"
# The present ports of sshd; the loader writes this file each time.
SSH = "/run/rigwright-firewall/ssh.nft"

# The kernel tracks connections only since the first rule that needs it, and takes a packet of an older one, such as a download, for a new
# connection. Dropping it would stop the download. A local socket identifies the connection, and an ACK alone cannot open one.
OLDER = (
    "ct state new tcp flags & (fin | syn | rst | ack) == ack socket wildcard 0 accept "
    'comment "connections older than the firewall"'
)

# The name of an interface, or a prefix and a star.
INTERFACE = re.compile(r"[A-Za-z0-9_.-]{1,14}[A-Za-z0-9_.*-]")


class Request(t.NamedTuple):
    """The values of the role's variables with these names."""

    ssh_networks: t.Sequence[str] = ("0.0.0.0/0", "::/0")
    ssh_ports: t.Sequence[int] = ()
    allow: t.Sequence[FirewallAllow] = ()
    containers: t.Sequence[FirewallAllow] = ()
    bridges: t.Sequence[str] = ("docker0", "br-*")
    bridges_reach_host: bool = True
    log: bool = False


def problems(request: Request) -> list[tuple[str, str]]:
    """Return all errors: the variable, with the number of the row where it has rows, and the error."""
    return [
        *_wrong("firewall_ssh_networks", request.ssh_networks, rules.parse_network),
        *_wrong("firewall_ssh_ports", request.ssh_ports, rules.parse_port),
        *_wrong_rows("firewall_allow", request.allow),
        *_wrong_rows("firewall_containers", request.containers),
        *_wrong("firewall_bridges", request.bridges, _interface),
    ]


def _wrong(variable: str, entries: t.Iterable[t.Any], check: t.Callable[[t.Any], t.Any]) -> t.Iterator[tuple[str, str]]:
    for entry in entries:
        try:
            check(entry)
        except ValueError as error:
            yield variable, str(error)


def _wrong_rows(variable: str, rows: t.Sequence[FirewallAllow]) -> t.Iterator[tuple[str, str]]:
    for number, row in enumerate(rows):
        where = f"{variable}[{number}]"
        found = list(_wrong(where, [row], _keys))
        if not found:
            networks = row["networks"]
            several = isinstance(networks, (list, tuple))
            found += (
                _wrong(where, networks, rules.parse_network)
                if several
                else _wrong(where, [networks], rules.parse_networks)
            )
            found += _wrong(where, [row], row_ports)
            found += _wrong(where, [row.get("comment") or variable], rules.checked_service)
        yield from found


def text(request: Request, older: bool = True) -> str:
    """Return the file.

    :param older: whether to accept connections that the kernel has not tracked, which needs nft_socket.
    :raises ValueError: see :func:`problems`.
    """
    allow = [line for row in request.allow for line in _row(row, "firewall_allow")]
    containers = [line for row in request.containers for line in _row(row, "firewall_containers")]
    ssh = [f'{source}accept comment "ssh"' for source in rules.sources(rules.parse_networks(request.ssh_networks))]
    own = rules.merged(rules.parse_port(port) for port in request.ssh_ports)
    log = ['limit rate 10/minute burst 20 packets log prefix "rigwright drop: "'] if request.log else []
    # One rule for each: nftables has names with a star in sets only since 1.0.3 (Ubuntu 22.04 has 1.0.2).
    bridges = [f'"{_interface(name)}"' for name in request.bridges]
    chains = {
        "ssh": ["# Who may log in. At which ports, the files of sshd say, and firewall_ssh_ports.", *ssh],
        "declared": [
            "# firewall_allow, and what roles declare: a file each.",
            *allow,
            f'include "{rules.FRAGMENTS}/*.nft"',
        ],
        "published": [
            "# firewall_containers, by the port that was asked for before docker changed it to the container's.",
            *(_original(line) for line in containers),
            *log,
            'counter drop comment "containers: nobody is let in"',
        ],
        "input": [
            "type filter hook input priority filter; policy drop;",
            'iifname "lo" accept',
            "ct state established,related accept",
            *([OLDER] if older else []),
            *_needed(),
            *(rule for name in bridges for rule in _from_bridge(name, request.bridges_reach_host)),
            f'include "{SSH}"',
            *([f"tcp dport {rules.port_set(own)} jump ssh"] if own else []),
            "jump declared",
            "# Ports of containers that a program of docker's listens on, for want of a rule that leads to the container.",
            *containers,
            *log,
            'counter comment "dropped: nobody declares it"',
        ],
        "forward": [
            "type filter hook forward priority filter; policy accept;",
            "ct state established,related accept",
            *(f"iifname {name} accept" for name in bridges),
            "# From outside to a container or virtual machine: a published port, or its address itself.",
            "ct status dnat jump published",
            *(f"oifname {name} jump published" for name in bridges),
        ],
    }
    family, name = TABLE
    head = [
        "# The firewall of the collection rigwright.workstation. Loading it replaces this table alone, in one transaction.",
        # Made where it is not there, so that there is one to delete.
        f"table {family} {name}",
        f"delete table {family} {name}",
        "",
        f"table {family} {name} {{",
    ]
    body = [line for chain, lines in chains.items() for line in (f"\tchain {chain} {{", *_indented(lines), "\t}", "")]
    return "\n".join([*head, *body[:-1], "}", ""])


def ssh_text(ports: t.Iterable[int]) -> str:
    """Return the content of :data:`SSH`."""
    return f"tcp dport {rules.port_set(rules.merged((port, port) for port in ports))} jump ssh\n"


def _needed() -> list[str]:
    """Return the rules for packets that every host needs (RFC 4890 for ICMPv6), and for answers that conntrack cannot match."""
    return [
        "icmp type { destination-unreachable, time-exceeded, parameter-problem, echo-request } accept",
        "icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem, echo-request } accept",
        "icmpv6 type { nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert } ip6 hoplimit 255 accept",
        "icmpv6 type { mld-listener-query, mld-listener-report, mld-listener-done, mld2-listener-report } accept",
        "ip protocol igmp accept",
        'udp sport 67 udp dport 68 accept comment "DHCP client"',
        'ip6 saddr fe80::/10 udp sport 547 udp dport 546 accept comment "DHCPv6 client"',
    ]


def _from_bridge(name: str, everything: bool) -> list[str]:
    if everything:
        return [f"iifname {name} accept"]
    return [
        f'iifname {name} udp dport {{ 53, 67, 547 }} accept comment "names and addresses"',
        f'iifname {name} tcp dport 53 accept comment "names"',
    ]


def row_ports(row: FirewallAllow) -> dict[str, list[rules.Range]]:
    """Return the ports that a row opens, by protocol."""
    return rules.parse_ports([{"port": row["port"], "protocol": row.get("protocol") or "tcp"}])


def _keys(row: FirewallAllow) -> None:
    unknown = set(row) - {"port", "protocol", "networks", "comment"}
    if unknown or "port" not in row or "networks" not in row:
        raise ValueError(f"{dict(row)!r} must have port and networks, and may have protocol and comment")


def _row(row: FirewallAllow, variable: str) -> list[str]:
    """Return the rules of a row of firewall_allow or firewall_containers."""
    _keys(row)
    ports = row_ports(row)
    service = rules.checked_service(row.get("comment") or variable)
    return rules.rules(ports, rules.parse_networks(row["networks"]), service)


def _original(line: str) -> str:
    return re.sub(r"\b(tcp|udp) dport ", r"meta l4proto \1 ct original proto-dst ", line, count=1)


def _interface(name: t.Any) -> str:
    if not isinstance(name, str) or not INTERFACE.fullmatch(name):
        raise ValueError(f"{name!r} must be the name of an interface, or the beginning of one and a star, such as br-*")
    return name


def _indented(lines: t.Iterable[str]) -> list[str]:
    return [f"\t\t{line}" for line in lines]

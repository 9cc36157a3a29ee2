# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of nftables that open ports to networks. Pure."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import typing as t
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import FileRow

Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]
Range = tuple[int, int]

PROTOCOLS = ("tcp", "udp")
ALL_IPV4 = ipaddress.ip_network("0.0.0.0/0")
ALL_IPV6 = ipaddress.ip_network("::/0")
# It becomes a quoted comment of nftables: at most 127 bytes, and no quote.
SERVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.,:/()+-]{0,99}")


class OpenedPorts(t.TypedDict):
    """Ports that are opened: a number, a range such as 6000-6010, or a list of them."""

    port: t.Any
    protocol: str


# Each role with a network service has a file of rules here; the firewall includes them.
FRAGMENTS = "/etc/nftables.d/rigwright"
FOLDERS = ("/etc/nftables.d", FRAGMENTS)


def file(ports: Sequence[OpenedPorts], networks: Sequence[str], service: str) -> FileRow:
    """Return the row of the file of a role, in the last of FOLDERS.

    :raises ValueError: a port, network or name is invalid.
    """
    return {"path": f"{FRAGMENTS}/{service}.nft", "content": fragment(ports, networks, service)}


def fragment(ports: Sequence[OpenedPorts], networks: Sequence[str], service: str) -> str:
    """Return the content of such a file: the rules of a chain, without the chain.

    :raises ValueError: a port, network or name is invalid.
    """
    named = checked_service(service)
    lines = rules(parse_ports(ports), parse_networks(networks), named)
    if not lines:
        return f"# {named}: this machine alone reaches it, no port is opened.\n"
    return "\n".join([f"# {named}: the ports that it is reached by, and from where.", *lines, ""])


def rules(ports: Mapping[str, Sequence[Range]], networks: Sequence[Network], service: str) -> list[str]:
    """Return a rule for each protocol and family, in an order that does not depend on the request."""
    return [
        f'{source}{protocol} dport {port_set(merged(ports[protocol]))} accept comment "{service}"'
        for source in sources(networks)
        for protocol in PROTOCOLS
        if ports.get(protocol)
    ]


def sources(networks: Sequence[Network]) -> list[str]:
    """Return the beginnings of rules for these networks; overlapping ones are joined, since nftables refuses them."""
    if ALL_IPV4 in networks and ALL_IPV6 in networks:
        return [""]
    found = []
    for family, word, everything in ((4, "ip", ALL_IPV4), (6, "ip6", ALL_IPV6)):
        own: list[t.Any] = [network for network in networks if network.version == family]
        if everything in own:
            found.append(f"meta nfproto ipv{family} ")
        elif own:
            found.append(f"{word} saddr {braces(str(network) for network in ipaddress.collapse_addresses(own))} ")
    return found


def parse_ports(ports: Sequence[OpenedPorts]) -> dict[str, list[Range]]:
    """Parse ports into ranges by protocol."""
    if isinstance(ports, (str, Mapping)) or not isinstance(ports, Sequence):
        raise ValueError(f"ports must be a list of port and protocol, not {ports!r}")
    found: dict[str, list[Range]] = {protocol: [] for protocol in PROTOCOLS}
    for row in ports:
        if not isinstance(row, Mapping) or set(row) != {"port", "protocol"}:
            raise ValueError(f"{row!r} must have port and protocol, and nothing else")
        if row["protocol"] not in PROTOCOLS:
            raise ValueError(f"the protocol {row['protocol']!r} must be tcp or udp")
        several = row["port"] if isinstance(row["port"], (list, tuple)) else [row["port"]]
        found[row["protocol"]] += [parse_port(port) for port in several]
    return found


def parse_port(port: t.Any) -> Range:
    """Parse a port such as 445, "445" or "6000-6010"."""
    # True is a word in YAML and the number 1 in Python.
    match = None if isinstance(port, bool) else re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", str(port))
    if not match:
        raise ValueError(f"the port {port!r} must be a number or a range such as 6000-6010")
    first, last = int(match[1]), int(match[2] or match[1])
    if not 1 <= first <= last <= 65535:
        raise ValueError(f"the port {port!r} must be between 1 and 65535, and a range must rise")
    return first, last


def parse_networks(networks: Sequence[str]) -> list[Network]:
    """Parse networks in CIDR notation; an address is a network of one host."""
    if isinstance(networks, (str, Mapping)) or not isinstance(networks, Sequence):
        raise ValueError(f"networks must be a list such as [192.168.1.0/24], not {networks!r}")
    return [parse_network(network) for network in networks]


def parse_network(text: t.Any) -> Network:
    """Parse one network. Host bits are an error: the host or its network may be meant."""
    # Python reads a number as an address: 24 would be 0.0.0.24.
    if not isinstance(text, str):
        raise ValueError(f"the network {text!r} must be text such as 192.168.1.0/24 or fd00::/64")
    with contextlib.suppress(ValueError):
        return _checked(text, strict=True)
    try:
        meant = _checked(text, strict=False)
    except ValueError:
        raise ValueError(
            f"the network {text!r} must be like 192.168.1.0/24 or fd00::/64; names are not resolved"
        ) from None
    raise ValueError(
        f"the network {text!r} has host bits set: write {meant} for the network, or the address without its length"
    )


def _checked(text: str, strict: bool) -> Network:
    # A zone (fe80::1%eth0) is local to one machine, and nftables has no such networks.
    return ipaddress.ip_network(text.replace("%", "no zones"), strict=strict)


def checked_service(service: t.Any) -> str:
    """Return the name of a service for comments.

    :raises ValueError: it is invalid.
    """
    if not isinstance(service, str) or not SERVICE.fullmatch(service):
        raise ValueError(f"the service {service!r} must be a short name of letters, digits, spaces and _.,:/()+-")
    return service


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Merge ranges that overlap or touch."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def port_set(ranges: Iterable[Range]) -> str:
    return braces(_port(row) for row in ranges)


def _port(row: Range) -> str:
    first, last = row
    return str(first) if first == last else f"{first}-{last}"


def braces(items: Iterable[str]) -> str:
    found = list(items)
    return found[0] if len(found) == 1 else f"{{ {', '.join(found)} }}"

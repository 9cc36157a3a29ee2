# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tell bridges of containers and virtual machines from those that lead to other machines, by ``ip --json --details link``. Pure.

A bridge is harmless when all of its ports are: the ends of containers (veth), of virtual machines (tun), and dummies. Any other port
(a card, a bond, a VLAN, a tunnel, a kind that is not known) leads to other machines.
"""

from __future__ import annotations

import json
import re
import typing as t


class Link(t.TypedDict, total=False):
    """A network interface, as ``ip -json -details link show`` prints it."""

    ifname: str
    link_type: str
    linkinfo: dict[str, str]
    master: str
    operstate: str


Links = t.Mapping[str, Link]

# Kinds of ports that end on this machine.
UNKNOWN = "unknown"
ENDS = ("tun", "dummy", "ifb", "veth", UNKNOWN)
# Kinds of interfaces that a user may have named, and which lead to other machines as a card does.
OUTWARD = ("bond", "team", "vlan", "macvlan", "ipvlan", "vxlan", "geneve", "gretap", "ip6gretap", "dsa", "batadv")
# The names that programs give to the bridges that they make: docker, podman and its CNI, libvirt, LXC, LXD and Incus.
PROGRAMS = re.compile(
    r"docker0|docker_gwbridge|br-[0-9a-f]{12}|podman[0-9]+|cni[-a-z]*[0-9]+|virbr[0-9]+|(lxc|lxd|incus)br[0-9]+"
)


def parse(listing: str) -> dict[str, Link]:
    """Return the links by name.

    :raises ValueError: it is not the output of ip.
    """
    return {link["ifname"]: link for link in json.loads(listing) if "ifname" in link}


def of_directories(found: t.Mapping[str, tuple[bool, t.Sequence[str]]]) -> dict[str, Link]:
    """Return links by name, from whether each has a device, and its ports. The kinds of ports without a device are not known."""
    masters = {port: name for name, (_device, ports) in found.items() for port in ports}
    return {
        name: {
            "ifname": name,
            "link_type": "ether",
            "linkinfo": {} if device else {"info_kind": "bridge" if ports else UNKNOWN},
            **({"master": masters[name]} if name in masters else {}),
        }
        for name, (device, ports) in found.items()
    }


def outside(links: Links, names: t.Iterable[str]) -> list[str]:
    """Return which of these interfaces lead to other machines, each with the port that does."""
    return [f"{name} ({port})" for name in names for port in _outward(links, name, set())]


def cards(links: Links) -> list[str]:
    """Return the interfaces that lead to other machines, without ports of bridges."""
    return [name for name, link in links.items() if "master" not in link and any(_outward(links, name, set()))]


def unknown(links: Links, names: t.Iterable[str]) -> list[str]:
    """Return bridges without a port by which they could be known, and without a name that docker and the like give."""
    return [
        name
        for name in names
        if _kind(links.get(name, {})) in ("bridge", UNKNOWN)
        and not PROGRAMS.fullmatch(name)
        and all(_kind(link) == UNKNOWN for link in links.values() if link.get("master") == name)
    ]


def _outward(links: Links, name: str, passed: set[str]) -> t.Iterator[str]:
    link = links.get(name, {})
    passed.add(name)
    if _kind(link) != "bridge":
        if _is_card(link) or _kind(link) in OUTWARD:
            yield name
        return
    for port in sorted(port["ifname"] for port in links.values() if port.get("master") == name):
        kind = _kind(links[port])
        if kind not in ENDS:
            yield port
        elif kind == "veth":
            # The other end is on this machine when it has a name: it may be a port of another bridge.
            peer = links.get(str(links[port].get("link", "")), {})
            master = str(peer.get("master", ""))
            if master and master not in passed:
                yield from _outward(links, master, passed)


def _kind(link: Link) -> str:
    return str(link.get("linkinfo", {}).get("info_kind", ""))


def _is_card(link: Link) -> bool:
    return bool(link) and not _kind(link) and link.get("link_type") == "ether"

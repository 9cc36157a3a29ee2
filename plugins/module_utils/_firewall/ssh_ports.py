# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the ports of sshd from its files, and check whether a client is allowed.

The ports come from the files and not from sshd: at boot it does not run yet, and a new port has to be open before sshd listens there.
Every port in the files counts, so that none is missing.
"""

from __future__ import annotations

import glob
import ipaddress
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import rules
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.config import (
    MAIN_CONFIG,
    read_lines,
    split_values,
)

# The socket of systemd for sshd (Ubuntu): its drop-ins, among them the output of Ubuntu's generator for sshd's own files; the unit, from
# the first directory that has it; and the link by which it starts. Debian has the unit as well, and does not start it.
DROP_INS = ("/etc/systemd/system", "/run/systemd/system", "/run/systemd/generator", "/usr/lib/systemd/system")
UNITS = ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
STARTED = "/etc/systemd/system/sockets.target.wants/ssh.socket"
LISTEN = re.compile(r"^ListenStream[ \t]*=[ \t]*(\S*)", re.MULTILINE)
DEFAULT_PORT = 22


def ports(tree: Tree) -> list[int]:
    """Return the ports in the files of sshd and of its socket; the default port where they have none."""

    def expand(pattern: str) -> list[str]:
        return [path[len(tree.root) :] for path in glob.glob(tree.at(pattern))]

    found, named, bare = set(), set(), False
    for line in read_lines(MAIN_CONFIG, tree.text, expand):
        if line.keyword == "port":
            named |= set(map(_number, split_values(line.value)[:1]))
        elif line.keyword == "listenaddress":
            ends = [_end(word) for word in split_values(line.value)[:1]]
            found |= {*ends}
            bare = bare or 0 in ends
    # An address without a port uses the values of `Port`.
    found |= named or ({DEFAULT_PORT} if bare else set())
    found |= {int(value) if value.isdecimal() else _end(value) for value in _socket(tree, expand)}
    return sorted(port for port in found if 1 <= port <= 65535) or [DEFAULT_PORT]


def _socket(tree: Tree, expand: t.Callable[[str], list[str]]) -> list[str]:
    """Return where the socket listens: an empty value takes back those before it."""
    unit = next((f"{place}/ssh.socket" for place in UNITS if tree.exists(f"{place}/ssh.socket")), "")
    drop_ins = [path for place in DROP_INS for path in expand(f"{place}/ssh.socket.d/*.conf")]
    values: list[str] = []
    for path in [*([unit] if unit and tree.exists(STARTED) else []), *sorted(drop_ins, key=_base)]:
        for value in LISTEN.findall(tree.text(path)):
            values = [*values, value] if value else []
    return values


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _end(endpoint: str) -> int:
    """Return the port of 10.0.0.1:2222, [::]:2222 or host:2222; 0 without one, as in 10.0.0.1 and fe80::1."""
    found = re.fullmatch(r"(?:\[[^]]+\]|[^:]*):(\d+)", endpoint)
    return int(found[1]) if found else 0


def lets_in(client: str, networks: t.Sequence[rules.Network]) -> bool:
    """Return whether a client's address is in one of these networks; the machine itself is always allowed."""
    address = plain(client)
    return address.is_loopback or any(address.version == network.version and address in network for network in networks)


def plain(client: str) -> t.Any:
    """Return an address as nftables sees it: without a zone, and as IPv4 when it is IPv4-mapped."""
    address = ipaddress.ip_address(client.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address

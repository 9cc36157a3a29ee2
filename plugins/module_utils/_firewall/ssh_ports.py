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
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh import command_line
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.config import (
    read_lines,
    split_setting,
    split_values,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system import unit_files

SOCKET = "ssh.socket"
DEFAULT_PORT = 22


def ports(tree: Tree) -> list[int]:
    """Return the ports in the files of sshd, on its command line and in its socket; the default port where they have none."""

    def expand(pattern: str) -> list[str]:
        return [path[len(tree.root) :] for path in glob.glob(tree.at(pattern))]

    found, named, bare = set(), set(), False
    for line in (line for path in command_line.config_files(tree) for line in read_lines(path, tree.text, expand)):
        if line.keyword == "port":
            named |= set(map(_number, split_values(line.value)[:1]))
        elif line.keyword == "listenaddress":
            ends = [_end(word) for word in split_values(line.value)[:1]]
            found |= {*ends}
            bare = bare or 0 in ends
    options = command_line.options(tree)
    # Those of -p replace the values of `Port` (sshd(8)), but another unit may start sshd without them.
    named |= {_number(value) for option, value in options if option == "-p"}
    settings = [split_setting(value) for option, value in options if option == "-o"]
    named |= {_number(value) for keyword, value in settings if keyword == "port"}
    # An address without a port uses the values of `Port`.
    found |= named or ({DEFAULT_PORT} if bare else set())
    found |= {int(value) if value.isdecimal() else _end(value) for value in _streams(tree)}
    return sorted(port for port in found if 1 <= port <= 65535) or [DEFAULT_PORT]


def _streams(tree: Tree) -> list[str]:
    """Return ListenStream of the socket, where the host starts it or has files of its own for it.

    Debian's package has one that nothing starts.
    """
    files = unit_files.files(tree, SOCKET)
    if not unit_files.is_enabled(tree, SOCKET) and not any(path.startswith(unit_files.LOCAL) for path in files):
        return []
    return unit_files.values(map(tree.text, files), "ListenStream")


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

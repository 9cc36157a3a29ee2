# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""At which ports sshd is to be reached, and whether a connection would pass.

The ports are read from the files and not asked of sshd: at boot it does not run yet, and a port that is about to be changed has to be
open before sshd listens there. All that the files speak of count, which is never too few.
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

# What systemd listens on for sshd (Ubuntu): drop-ins, and what Ubuntu's generator makes of sshd's own files.
SOCKETS = ("/etc/systemd/system/ssh.socket.d/*.conf", "/run/systemd/generator/ssh.socket.d/*.conf")
USUAL = 22


def ports(tree: Tree) -> list[int]:
    """The ports that the files of sshd and of its socket name; the usual one where they name none."""

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
    # An address without a port has those that `Port` names.
    found |= named or ({USUAL} if bare else set())
    for pattern in SOCKETS:
        for path in expand(pattern):
            values = re.findall(r"^ListenStream[ \t]*=[ \t]*(\S+)", tree.text(path), re.MULTILINE)
            found |= {int(value) if value.isdecimal() else _end(value) for value in values}
    return sorted(port for port in found if 1 <= port <= 65535) or [USUAL]


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _end(endpoint: str) -> int:
    """The port of 10.0.0.1:2222, [::]:2222 or host:2222; 0 where none is named, as in 10.0.0.1 and fe80::1."""
    found = re.fullmatch(r"(?:\[[^]]+\]|[^:]*):(\d+)", endpoint)
    return int(found[1]) if found else 0


def lets_in(client: str, networks: t.Sequence[rules.Network]) -> bool:
    """Whether a client's address lies in one of these networks; the machine itself always may."""
    address = plain(client)
    return address.is_loopback or any(address.version == one.version and address in one for one in networks)


def plain(client: str) -> t.Any:
    """An address as nftables sees it: without a zone, and IPv4 where a socket of IPv6 wraps it."""
    address = ipaddress.ip_address(client.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address

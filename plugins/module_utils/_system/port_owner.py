# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check whose program listens on a port of this machine, before a secret is sent there or an answer is believed.

A port above 1023 belongs to the user who binds it first, and the port of a service is free while the service does not run.
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import pwd
import re
import socket
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._system.listeners import read_sockets

Run = t.Callable[..., tuple[int, str, str]]
# Returns why what listens at an address and a port is not the service; an empty text if it is.
ForeignOwner = t.Callable[[str, int], str]


def foreign_owner_of(run: Run, unit: str, proc: str = "/proc") -> ForeignOwner:
    """Return the check for the ports of a unit of the system."""
    return functools.partial(foreign_owner, uids=uids_of(run, unit, proc), proc=proc)


def uids_of(run: Run, unit: str, proc: str = "/proc") -> set[int]:
    """Return root, who binds a port before a service changes its user, and the users of the unit's main process."""
    _rc, pid, _err = run(["systemctl", "show", "--property=MainPID", "--value", unit])
    # The owner of /proc/<pid> is root where the process has changed its user.
    with contextlib.suppress(OSError), open(f"{proc}/{int(pid.strip() or 0)}/status", encoding="utf-8") as file:
        found = re.search(r"^Uid:((?:\s+\d+)+)$", file.read(), re.MULTILINE)
        return {0, *map(int, found[1].split())} if found else {0}
    return {0}


def first_open_port(proc: str = "/proc") -> int:
    """Return the first port that any user can bind; the lower ones need a capability."""
    with open(f"{proc}/sys/net/ipv4/ip_unprivileged_port_start", encoding="ascii") as file:
        return int(file.read())


def foreign_owner(address: str, port: int, uids: t.Collection[int], proc: str = "/proc") -> str:
    """Return why what listens for TCP at an address and a port is not run by one of these users."""
    try:
        meant = {_plain(str(entry[4][0])) for entry in socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError) as error:
        return f"{address!r} is no address of this machine: {error}"
    holders = {
        row.uid
        for row in read_sockets(proc)
        if (row.protocol, row.port) == ("tcp", port)
        and (_plain(row.address) in meant or _plain(row.address).is_unspecified)
    }
    if not holders:
        return "nobody listens there"
    foreign = sorted(holders - set(uids))
    return f"{', '.join(map(_name, foreign))} listens there, and not the service" if foreign else ""


def _plain(text: str) -> t.Any:
    """Return an address; one that is IPv4 in IPv6 as IPv4."""
    address = ipaddress.ip_address(text)
    return getattr(address, "ipv4_mapped", None) or address


def _name(uid: int) -> str:
    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"the user with id {uid}"

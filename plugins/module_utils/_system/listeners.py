# Copyright: the Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read from ``/proc`` which process and which systemd unit listens on which port.

The tables are described in proc_pid_net(5), the control groups in cgroups(7).
"""

from __future__ import annotations

import ipaddress
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Listener
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown

PROTOCOLS = {"tcp": "tcp", "tcp6": "tcp", "udp": "udp", "udp6": "udp"}

# include/net/tcp_states.h: TCP waits for connections in LISTEN; an unconnected UDP socket rests in CLOSE.
_WAITING = {"tcp": "0A", "udp": "07"}

# Units that hold processes. A slice only groups units.
_UNIT_ENDINGS = (".service", ".scope")
# Where systemd keeps itself, below the group of the whole machine.
_FIRST = "/init.scope"


class Socket(t.NamedTuple):
    """A socket that waits for peers."""

    protocol: str
    address: str
    port: int
    inode: int
    # Of the user who made it.
    uid: int = 0


def parse_address(text: str) -> tuple[str, int]:
    """Read ``0100007F:0016`` as ``("127.0.0.1", 22)``.

    The kernel prints an address as 32-bit words in the byte order of the machine, which is little-endian on every
    supported one, and the port as a plain hexadecimal number.
    """
    digits, port = text.split(":")
    packed = b"".join(bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8))
    return str(ipaddress.ip_address(packed)), int(port, 16)


def parse_table(protocol: str, text: str) -> list[Socket]:
    """Read the waiting sockets of one table, for example the text of ``/proc/net/tcp6`` with the protocol ``tcp``."""
    sockets = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if fields[3] == _WAITING[protocol]:
            sockets.append(Socket(protocol, *parse_address(fields[1]), int(fields[9]), int(fields[7])))
    return sockets


def _groups(cgroup: str) -> list[str]:
    """Return the groups that systemd gives a process, from ``/proc/<pid>/cgroup`` (version 1, 2 or both)."""
    # Not `splitlines`: a user may name a group with any line break but a line feed.
    rows = [line.split(":", 2) for line in cgroup.split("\n")]
    return [row[2] for row in rows if len(row) == 3 and row[1] in ("", "name=systemd")]


def parse_unit(cgroup: str, first: str = "") -> str | None:
    """Name the unit of this machine that holds a process; None outside of any, such as in a container.

    What is below a unit has its names from others: the services of a user's manager, or of a container with systemd.

    :param first: the group of the first process: a machine that is a container may see the groups above its own.
    """
    roots = [group.removesuffix(_FIRST).rstrip("/") for group in _groups(first)] or [""]
    for group in _groups(cgroup):
        for below in [group[len(root) :] for root in roots if group.startswith(f"{root}/")]:
            parts = below.split("/")[1:]
            name = next((part for part in parts if not part.endswith(".slice")), "")
            if name.endswith(_UNIT_ENDINGS):
                return name
    return None


def _read(path: str) -> str:
    """Return the text of a file in ``/proc``; empty if the process, or IPv6, does not exist."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""


def _links(directory: str) -> t.Iterator[str]:
    """Yield the targets of the links in a directory of ``/proc``, as far as they may be read."""
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return
    for name in names:
        try:
            yield os.readlink(os.path.join(directory, name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue


def _holders(proc: str, inodes: set[int]) -> dict[int, int]:
    """Find the process that holds each socket.

    A process that systemd or a master process handed the socket to names the service better than process 1 does,
    and the master better than its workers: the smallest id but 1.
    """
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    holders: dict[int, int] = {}
    pids = sorted(int(name) for name in os.listdir(proc) if name.isdigit())
    for pid in [pid for pid in pids if pid != 1] + [1]:
        if len(holders) == len(wanted):
            break
        for link in _links(f"{proc}/{pid}/fd"):
            if link in wanted:
                holders.setdefault(wanted[link], pid)
    return holders


def read_sockets(proc: str = "/proc") -> set[Socket]:
    """Return the sockets that wait for peers."""
    return {
        socket
        for table, protocol in PROTOCOLS.items()
        for socket in parse_table(protocol, _read(f"{proc}/net/{table}"))
    }


def read_listeners(proc: str = "/proc") -> list[Listener]:
    """List the listeners, sorted: ``protocol``, ``address``, ``port``, ``process``, ``pid``, ``unit``.

    The last three are None where the process cannot be seen: it lives outside this container, or is not ours to read.
    """
    sockets = sorted(
        read_sockets(proc), key=lambda socket: (socket.protocol, socket.port, socket.address, socket.inode)
    )
    holders = _holders(proc, {socket.inode for socket in sockets})
    first = _read(f"{proc}/1/cgroup")
    listeners: list[Listener] = []
    for socket in sockets:
        pid = holders.get(socket.inode)
        listeners.append(
            {
                "protocol": socket.protocol,
                "address": socket.address,
                "port": socket.port,
                # Each user names processes and groups of their own.
                "process": shown(_read(f"{proc}/{pid}/comm").strip()) or None,
                "pid": pid,
                "unit": shown(parse_unit(_read(f"{proc}/{pid}/cgroup"), first) or "") or None,
            }
        )
    return listeners

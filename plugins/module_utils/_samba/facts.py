# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts about a host that matter to Samba, and the units that run with and without the role."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import ipaddress
import os
import socket
import stat
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import read_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan import stopped
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import UnitRow
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.rules import OpenedPorts
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.config import CONFIGURATION, LISTEN, Network
from ansible_collections.rigwright.workstation.plugins.module_utils._system import mounts
from ansible_collections.rigwright.workstation.plugins.module_utils._system.listeners import parse_address

SMBD = "smbd.service"
AVAHI = "avahi-daemon.service"
# Of the same packages, and not for a server that stands alone without netbios.
OTHERS = ("nmbd.service", "samba-ad-dc.service")
# WS-Discovery, of Windows; multicast DNS, of Macs.
DISCOVERY_PORT, MDNS_PORT = 3702, 5353
_ESTABLISHED = "01"
USERSHARES = "/var/lib/samba/usershares"
# As many as the kernel follows (path_resolution(7)).
_MOST_LINKS = 40

Params = t.Mapping[str, t.Any]
# `installed`: whether Samba was there; `units`: those that were, each with `enabled` and `active`.
Before = dict[str, t.Any]


class Host(Tree):
    """Files of the host with facts about disks, modules and connections."""

    def mount_points(self) -> list[str]:
        """Return where something is mounted, and where fstab(5) mounts something."""
        mounted = [mount.target for mount in mounts.parse_mountinfo(self.text("/proc/self/mountinfo"))]
        lines = mounts.fstab_lines(self.text("/etc/fstab"))
        declared = [line.target for line in lines if line.target.startswith("/")]
        return sorted({os.path.normpath(point) for point in (*mounted, *declared)})

    def usershares(self) -> dict[str, str]:
        """Return the files by which users share folders. They are the users': a link or a pipe among them is not read."""
        found = {}
        for name in self.names(USERSHARES):
            with contextlib.suppress(OSError):
                found[name] = read_file(self.at(f"{USERSHARES}/{name}")).decode("utf-8", "replace")
        return found

    def vfs_modules(self, pattern: str) -> set[str]:
        return {os.path.basename(path)[:-3] for path in glob.glob(f"{self.at(pattern)}/*.so")}

    def connected(self, port: int) -> list[str]:
        """Return addresses of clients that are connected to a port of this host."""
        found = set()
        for table in ("tcp", "tcp6"):
            for line in self.text(f"/proc/net/{table}").splitlines()[1:]:
                fields = line.split()
                if fields[3] == _ESTABLISHED and parse_address(fields[1])[1] == port:
                    found.add(parse_address(fields[2])[0])
        return sorted(found)

    def interfaces(self, networks: t.Sequence[Network]) -> list[str]:
        """Return the interfaces with an address of these networks, on which Samba can be announced to their hosts."""
        found = set()
        for line in self.text("/proc/net/if_inet6").splitlines():
            digits, *_rest, name = line.split()
            address = ipaddress.ip_address(bytes.fromhex(digits))
            if any(address in network for network in networks):
                found.add(name)
        for name, text in ipv4_addresses(self.names("/sys/class/net")):
            if any(ipaddress.ip_address(text) in network for network in networks):
                found.add(name)
        return sorted(found)


def ipv4_addresses(names: t.Iterable[str]) -> t.Iterator[tuple[str, str]]:
    """Yield the first address of each interface (netdevice(7), SIOCGIFADDR)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        for name in names:
            request = name.encode()[:15].ljust(256, b"\0")
            try:
                answer = fcntl.ioctl(connection.fileno(), 0x8915, request)
            except OSError:
                continue
            yield name, socket.inet_ntoa(answer[20:24])


def foreign_link(path: str, owner: int = 0) -> str:
    """Return the first link on a path that is not root's: its owner can redirect it at any time. Empty for none."""
    here, names, links = "/", path.split("/"), 0
    while names and links < _MOST_LINKS:
        name = names.pop(0)
        path_so_far = (
            os.path.dirname(here) if name == ".." else os.path.join(here, name) if name not in ("", ".") else here
        )
        try:
            info = os.lstat(path_so_far)
            target = os.readlink(path_so_far) if stat.S_ISLNK(info.st_mode) else ""
        except OSError:
            break
        if not target:
            here = path_so_far
            continue
        if info.st_uid != owner:
            return path_so_far
        links += 1
        here = "/" if target.startswith("/") else here
        names = target.split("/") + names
    return ""


def ports(port: int, windows: bool, macos: bool) -> list[OpenedPorts]:
    found: list[OpenedPorts] = [{"port": port, "protocol": "tcp"}]
    if windows:
        found += [{"port": DISCOVERY_PORT, "protocol": "tcp"}, {"port": DISCOVERY_PORT, "protocol": "udp"}]
    if macos:
        found.append({"port": MDNS_PORT, "protocol": "udp"})
    return found


def unit_names(params: Params) -> list[str]:
    return [SMBD, *OTHERS, params["discovery_unit"], AVAHI]


def drop_in(params: Params) -> str:
    return f"/etc/systemd/system/{params['discovery_unit']}.d/rigwright.conf"


def units(
    params: Params, before: Before | None, windows: bool, macos: bool, connected: t.Collection[str], announces: bool
) -> list[UnitRow]:
    """Return units to stop, then units to run: with the role, or after its removal.

    :param before: None where the role never was.
    :param announces: whether the role has had the host announced to Windows so far.
    """
    if params["state"] == "absent":
        return _units_afterwards(params, before) if before else []
    serving: UnitRow = {
        "name": SMBD,
        "enabled": True,
        # Sockets are opened once. Everything else is read again, and open connections live on.
        "restart_on": [LISTEN],
        "reload_on": [CONFIGURATION],
        "may_restart": bool(params["allow_disruption"]) or not connected,
        "validate": f"/usr/bin/testparm -s --suppress-prompt {CONFIGURATION}",
    }
    stop, run = [*OTHERS], [serving]
    if windows:
        run.append({"name": params["discovery_unit"], "enabled": True, "restart_on": [drop_in(params)]})
    elif announces:
        stop.append(params["discovery_unit"])
    if macos:
        run.append({"name": AVAHI, "enabled": True})
    return [*stopped(*stop), *run]


def _units_afterwards(params: Params, before: Before) -> list[UnitRow]:
    """Return units for the removal: what ran before the role runs again, with its own files; other units stop."""
    stop: list[UnitRow] = []
    run: list[UnitRow] = []
    for name in unit_names(params):
        was = before["units"].get(name, {"enabled": False, "active": False})
        if not was["active"]:
            stop.append({"name": name, "state": "stopped", "enabled": was["enabled"]})
        else:
            again = {SMBD: [CONFIGURATION, LISTEN], params["discovery_unit"]: [drop_in(params)]}.get(name, [])
            run.append({"name": name, "enabled": was["enabled"], "restart_on": again})
    return [*stop, *run]

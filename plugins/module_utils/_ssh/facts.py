# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts of the host for the plan of sshd: accounts, Ansible's own connection, units, listeners and banners."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import socket
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.accounts import group as group_of_host
from ansible_collections.rigwright.workstation.plugins.module_utils._core.accounts import members_of
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import read_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Listener
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.access import (
    Account,
    connection,
    grants_root,
    has_password,
    listen_port,
    parse_shadow,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.match import Listed
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.plan import Peer, Service
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.ssh_options import SshAllowGroups
from ansible_collections.rigwright.workstation.plugins.module_utils._system import systemd

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._core.runner import Runner

UNITS = ("ssh.service", "ssh.socket")

# Seconds in which a started server has to answer, and a stopped one has to release its port.
PATIENCE = 5


def read_keys(path: str) -> str:
    """Read a file of keys, which a user may have replaced; sshd follows links there as well."""
    return read_file(os.path.realpath(path)).decode("utf-8", errors="replace")


def read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def accounts(names: t.Iterable[str], members: t.Mapping[str, t.Sequence[str]]) -> list[Account]:
    """Return all users that can be listed, and the named ones, which a directory service may know without listing them."""
    shadow = parse_shadow(read("/etc/shadow"))
    entries = {entry.pw_name: entry for entry in pwd.getpwall()}
    for name in names:
        with contextlib.suppress(KeyError):
            entries.setdefault(name, pwd.getpwnam(name))
    found = []
    for name, entry in entries.items():
        password, expires = shadow.get(name, ("*", None))
        groups = {group for group, users in members.items() if name in users}
        for gid in os.getgrouplist(name, entry.pw_gid):
            with contextlib.suppress(KeyError):
                groups.add(grp.getgrgid(gid).gr_name)
        found.append(Account(name, entry.pw_uid, entry.pw_dir, entry.pw_shell, password, expires, frozenset(groups)))
    return found


def listed() -> Listed:
    """Return the users that the host lists, and its groups without members whom it does not list."""
    users = frozenset(entry.pw_name for entry in pwd.getpwall())
    return Listed(users, frozenset(entry.gr_name for entry in grp.getgrall() if users.issuperset(entry.gr_mem)))


def group_members(gid: int) -> set[str]:
    """Return the users of a group, including those whose primary group it is."""
    with contextlib.suppress(KeyError):
        return {*grp.getgrgid(gid).gr_mem, *(entry.pw_name for entry in pwd.getpwall() if entry.pw_gid == gid)}
    return set()


def groups_due(groups: t.Iterable[SshAllowGroups]) -> bool:
    """Return whether a group does not exist, or lacks a member."""
    return any(
        group_of_host(group["name"]) is None or not {*group["members"]} <= {*members_of(group["name"])}
        for group in groups
    )


def can_sudo(module: Runner, account: Account) -> bool:
    """Return whether a user is root, or can run everything as root by sudo."""
    if account.uid == 0:
        return True
    sudo = module.get_bin_path("sudo")
    if sudo is None:
        return False
    _rc, out, _err = module.run_command([sudo, "-n", "-l", "-U", account.name])
    return grants_root(out, password=has_password(account))


def ancestors(tree: Tree) -> t.Iterator[tuple[int, dict[str, str]]]:
    """Yield user id and environment of this process, its parent and so on, as far as they can be read.

    sudo leaves SSH_CONNECTION behind, so that only an ancestor has it.
    """
    pid = os.getpid()
    while pid > 1:
        try:
            uid = os.stat(tree.at(f"/proc/{pid}")).st_uid
        except OSError:
            return
        entries = tree.text(f"/proc/{pid}/environ").split("\0")
        yield uid, dict(entry.split("=", 1) for entry in entries if "=" in entry)
        # The name, in brackets, may hold anything; the parent is the second field after it.
        pid = int((tree.text(f"/proc/{pid}/stat").rpartition(")")[2].split() or ["", "0"])[1])


def own_connection() -> Peer | None:
    found = connection(ancestors(Tree()))
    return found and Peer(pwd.getpwuid(found.uid).pw_name, found.client, found.address, found.port)


def read_service(module: Runner, listeners: t.Sequence[Listener]) -> Service:
    """Read the state and ports of the units. Only the main process counts: a session's process listens on forwarded ports."""
    shown = systemd.show(module.run_command, UNITS, ("ActiveState", "MainPID", "Accept", "Listen"))
    service, listening = shown["ssh.service"], shown["ssh.socket"]
    pid = int(service["MainPID"][0])
    active = listening["ActiveState"] == ["active"]
    return Service(
        active=service["ActiveState"] == ["active"],
        pid=pid,
        ports=tuple(sorted({entry["port"] for entry in listeners if pid and entry["pid"] == pid})),
        socket_active=active,
        socket_accept=listening.get("Accept") == ["yes"],
        socket_ports=tuple(sorted({port for port in map(listen_port, listening.get("Listen", [])) if port and active})),
    )


def foreign_listeners(listeners: t.Sequence[Listener], pid: int) -> list[Listener]:
    """Return the listeners of a sshd other than the service. A session of the service does not call itself a listener."""
    found = []
    for entry in listeners:
        if entry["process"] == "sshd" and entry["pid"] != pid:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += [entry] if "[listener]" in read(f"/proc/{entry['pid']}/cmdline") else []
    return found


def can_listen(address: str) -> bool:
    """Return whether the host has an IP address, by binding to it. The kernel chooses a free port."""
    try:
        found = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        for family, kind, _protocol, _name, endpoint in found:
            with socket.socket(family, kind) as trial:
                trial.bind(endpoint)
    except OSError:
        return False
    return True


def banner(address: str, port: int, patience: float) -> str:
    """Return the first line of an ssh server, empty where there is none."""
    end = time.monotonic() + patience
    while True:
        try:
            with socket.create_connection((address, port), timeout=PATIENCE) as peer:
                line = peer.makefile("rb").readline(256).decode("ascii", errors="replace").strip()
                return line if line.startswith("SSH-2.0-") else ""
        except OSError:
            if time.monotonic() > end:
                return ""
            time.sleep(0.2)

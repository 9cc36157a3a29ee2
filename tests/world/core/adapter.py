"""Ask the readers of _core, _system and _status, and the notifier."""

from __future__ import annotations

import os
import pwd
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._status import machine, services
from ansible_collections.rigwright.workstation.plugins.module_utils._system import (
    drop_ins,
    listeners,
    mounts,
    notifier,
    systemd,
)
from ansible_collections.rigwright.workstation.plugins.modules import host_facts


def _tree(root: str, files: dict[str, str]) -> Tree:
    for path, text in files.items():
        file = Path(root + path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return Tree(root)


def updates(notice: str) -> list[str]:
    """Return what the display says about updates that wait."""
    with tempfile.TemporaryDirectory() as root:
        tree = _tree(root, {services.NOTICE: notice})
        return [value for row in services.updates(tree, time.time()) if row.label == "updates" for value in row.values]


def reboot(packages: str) -> list[str]:
    """Return what the display says about a reboot."""
    with tempfile.TemporaryDirectory() as root:
        tree = _tree(root, {services.REBOOT: "", services.REBOOT_PACKAGES: packages})
        return [value for row in services.updates(tree, time.time()) if row.label == "reboot" for value in row.values]


def memory(meminfo: str) -> list[str]:
    """Return what the display says about the memory."""
    with tempfile.TemporaryDirectory() as root:
        return [value for row in machine.memory(_tree(root, {"/proc/meminfo": meminfo})) for value in row.values]


def interfaces(names: list[str], default: str) -> list[str]:
    """Return the interfaces that the display has, in its order."""
    head = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
    with tempfile.TemporaryDirectory() as root:
        tree = _tree(
            root, {"/proc/net/route": f"{head}{default}\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"}
        )
        after = machine.Counters(0.0, links=dict.fromkeys(names, (0.0, 0.0)))
        return [row.label for row in machine.network(tree, None, after, lambda _name: "")]


def interfaces6(names: list[str], default: str) -> list[str]:
    """Return the same on a machine without a route of IPv4."""
    zero = "0" * 32
    routes = f"{zero} 00 {zero} 00 fe80{'0' * 27}1 00000400 00000001 00000000 00450003 {default}\n"
    routes += f"{zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200       lo\n"
    with tempfile.TemporaryDirectory() as root:
        tree = _tree(root, {"/proc/net/route": "Iface Destination Gateway\n", "/proc/net/ipv6_route": routes})
        after = machine.Counters(0.0, links=dict.fromkeys(names, (0.0, 0.0)))
        return [row.label for row in machine.network(tree, None, after, lambda _name: "")]


def disks(mountinfo: str) -> list[str]:
    """Return the file systems that the display has."""
    usage = os.statvfs_result((4096, 4096, 100, 50, 50, 10, 5, 5, 0, 255))
    with tempfile.TemporaryDirectory() as root, mock.patch.object(os.path, "isdir", return_value=True):
        tree = _tree(root, {"/proc/self/mountinfo": mountinfo})
        return [row.label for row in machine.disks(tree, statvfs=lambda _path: usage)]


def accounts(rows: list[list[str]]) -> dict[str, str]:
    """Return the comments of accounts, from names and comments in the order of getpwent(3), as Python reads their bytes."""
    entries = [
        pwd.struct_passwd((name, "x", 1000, 1000, os.fsdecode(comment.encode("latin-1")), "/", "/bin/sh"))
        for name, comment in rows
    ]
    with mock.patch.object(pwd, "getpwall", return_value=entries):
        return host_facts.users()


def unit_of(cgroup: str, first: str = "0::/init.scope\n") -> str | None:
    """Return the unit of a process; *first* is the group of the first process of the machine."""
    return listeners.parse_unit(cgroup, first)


def listening(protocol: str, table: str) -> list[list[Any]]:
    return [[socket.address, socket.port] for socket in listeners.parse_table(protocol, table)]


def targets(mountinfo: str) -> list[list[str]]:
    return [[mount.target, mount.source, mount.fstype] for mount in mounts.parse_mountinfo(mountinfo)]


def is_loaded(properties: dict[str, str], changed_s_after: float, ago_s: int) -> bool:
    """Return whether a unit that started so long ago has loaded a file that was changed so long after its start.

    `{wall}` and `{monotonic}` in the properties are the start by the two clocks; `{future}` is a wall clock 8 hours ahead.
    """
    # By a whole second, as systemctl prints it.
    started = float(int(time.time()) - ago_s)
    text = {
        "{wall}": time.strftime("%a %Y-%m-%d %H:%M:%S UTC", time.gmtime(started)),
        "{future}": time.strftime("%a %Y-%m-%d %H:%M:%S UTC", time.gmtime(started + 8 * 3600)),
        "{monotonic}": f"{(time.monotonic() - (time.time() - started)) * 1e6:.0f}",
    }
    base = {
        **dict.fromkeys(("Id", "Names"), "x.service"),
        **dict.fromkeys(("SubState", "UnitFileState", "NeedDaemonReload", "InvocationID", "DropInPaths"), ""),
        "LoadState": "loaded",
        "ActiveState": "active",
    }
    shown = {key: [text.get(value, value)] for key, value in {**base, **properties}.items()}
    status = systemd.Status.of(shown)
    return not systemd.stale(status, {"/etc/x": systemd.Watched("new", started + changed_s_after)}, {})


def message(text: str) -> dict[str, str]:
    """Return what apprise is given for a message."""
    taken: dict[str, str] = {}

    class Service:
        def notify(self, **options: str) -> bool:
            taken.update(options)
            return True

    notifier._deliver(Service(), notifier.Statuses(), "title", text)
    return {key: value for key, value in taken.items() if key != "title"}


def settings(path: str, text: str) -> dict[str, list[str]]:
    """Return what a file sets, by name, as it is compared with a role's own; names of whole groups end with a star and are left out."""
    form = drop_ins.form_of(path)
    assert form
    found: dict[str, list[str]] = {}
    for name, value in form.settings(text):
        if not name.endswith("*"):
            found.setdefault(name, []).append(value)
    return found

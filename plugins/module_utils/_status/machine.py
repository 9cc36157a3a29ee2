# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read processors, memory, disks and network of the host from /proc and by statvfs. No program is started, and no server is asked."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import struct
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._status import model
from ansible_collections.rigwright.workstation.plugins.module_utils._status.model import Row
from ansible_collections.rigwright.workstation.plugins.module_utils._system import mounts

_DISKS, _LINKS = 12, 6
_FULL, _ALMOST_FULL = 0.97, 0.9
_LOW_MEMORY = 0.95
# docker names a bridge by twelve digits of its network. Others that begin with br- are the owner's.
_VIRTUAL = re.compile(
    r"(lo|veth.*|docker\d+|br-[0-9a-f]{12}|podman\d+|virbr\d+.*|cni\d+|flannel.*|cali.*|ifb\d+|dummy\d+)$"
)
_GET_ADDRESS = 0x8915  # SIOCGIFADDR of linux/sockios.h


class Counters(t.NamedTuple):
    """What the kernel counts since the boot. ``links``: received and sent bytes by interface."""

    time: float
    busy: float = 0.0
    total: float = 0.0
    links: t.Mapping[str, tuple[float, float]] = {}


def counters(tree: Tree, now: float) -> Counters:
    """Read the counters of processors and interfaces (proc(5), /proc/stat and /proc/net/dev)."""
    first = tree.text("/proc/stat").partition("\n")[0].split()[1:9]
    ticks = [float(field) for field in first]
    # The fourth and the fifth: idle, and idle while waiting for a disk.
    idle = sum(ticks[3:5])
    links = {}
    for line in tree.text("/proc/net/dev").splitlines():
        name, colon, rest = line.partition(":")
        fields = rest.split()
        if colon and len(fields) >= 9:
            links[name.strip()] = (float(fields[0]), float(fields[8]))
    return Counters(now, sum(ticks) - idle, sum(ticks), links)


def processors(tree: Tree, before: Counters | None, after: Counters) -> list[Row]:
    """Return the load, and how busy the processors were since the counters *before*."""
    count = len(re.findall(r"^cpu\d+ ", tree.text("/proc/stat"), re.MULTILINE)) or 1
    load = tree.text("/proc/loadavg").split()
    passed = after.total - before.total if before else 0.0
    share = (after.busy - before.busy) / passed if before and passed > 0 else None
    values = [model.percent(share) if share is not None else "", f"load {load[0]}" if load else "", f"{count} threads"]
    brief = f"load {load[0]}" if load else ""
    return [Row("CPU", tuple(filter(None, values)), share=share, brief=brief)]


def memory(tree: Tree) -> list[Row]:
    """Return what programs use of the memory, and the swap space in use."""
    sizes = {
        name: float(size) * 1024
        for name, size in re.findall(r"^(\w+):\s+(\d+) kB$", tree.text("/proc/meminfo"), re.MULTILINE)
    }
    total = sizes["MemTotal"]
    if not total:
        return [Row("memory", ("unknown",), level=model.DIM)]
    # Kernels before 3.14 and some containers do not say what is available.
    older = sum(sizes.get(name, 0.0) for name in ("MemFree", "Buffers", "Cached"))
    used = total - sizes.get("MemAvailable", older)
    swap = sizes.get("SwapTotal", 0.0) - sizes.get("SwapFree", 0.0)
    values = [model.percent(used / total), f"{model.gib(used)}/{model.gib(total)} GiB"]
    if swap:
        values.append(f"swap {model.gib(swap)} GiB")
    level = model.WARN if used / total >= _LOW_MEMORY else model.OK
    return [Row("memory", tuple(values), share=used / total, level=level, brief=f"memory {values[0]}")]


def uptime(tree: Tree) -> float:
    fields = tree.text("/proc/uptime").split()
    return float(fields[0]) if fields else 0.0


def disks(tree: Tree, cache: str = "", statvfs: t.Callable[[str], os.statvfs_result] = os.statvfs) -> list[Row]:
    """Return the local file systems; the fullest first after the root.

    :param cache: the directory of the data set cache; the file system that has it is marked.
    """
    found: dict[str, mounts.Mount] = {}
    for mount in mounts.read_mounts(tree.at("/proc/self/mountinfo")):
        # A server that is gone, or the program behind a file system, would block the display.
        is_remote = mount.fstype in mounts.NETWORK or mount.fstype.startswith("fuse")
        is_snapshot = mount.fstype == "zfs" and "@" in mount.source
        if not is_remote and not is_snapshot and mount.directory and mounts.holds_data(mount):
            # A unit's sandbox mounts parts of a file system again, below longer names.
            found[mount.device] = min(found.get(mount.device, mount), mount, key=lambda each: len(each.target))
    targets = sorted(mount.target for mount in found.values())
    holder = max((target for target in targets if cache and mounts.is_within(cache, target)), key=len, default="")
    rows = []
    for target in targets:
        with contextlib.suppress(OSError):
            rows += _disk(target, statvfs(tree.at(target)), target == holder)
    rows.sort(key=lambda row: (row.label != "/", -(row.share or 0)))
    return rows[:_DISKS]


def _disk(target: str, facts: os.statvfs_result, has_cache: bool) -> list[Row]:
    used, free = facts.f_blocks - facts.f_bfree, facts.f_bavail
    if used + free <= 0:
        return []
    # As df: what only root can use is no part of it.
    share = used / (used + free)
    level = model.FAIL if share >= _FULL else model.WARN if share >= _ALMOST_FULL else model.OK
    values = [model.percent(share), f"{model.gib(free * facts.f_frsize)} GiB free"]
    if has_cache:
        values.append("data set cache")
    is_essential = target == "/" or level != model.OK
    return [
        Row(
            target,
            tuple(values),
            share=share,
            level=level,
            rank=model.ESSENTIAL if is_essential else model.USUAL,
            brief=f"{target} {values[0]}" if is_essential else "",
        )
    ]


def network(
    tree: Tree, before: Counters | None, after: Counters, address: t.Callable[[str], str] | None = None
) -> list[Row]:
    """Return the interfaces with their addresses, and the rates since the counters *before*."""
    routes = [line.split() for line in tree.text("/proc/net/route").splitlines()[1:]]
    default = {fields[0] for fields in routes if len(fields) > 1 and fields[1] == "00000000"}
    rows = []
    for name in sorted(after.links, key=lambda each: (each not in default, each)):
        if _VIRTUAL.match(name) and name not in default:
            continue
        state = tree.text(f"/sys/class/net/{name}/operstate").strip()
        values = [(address or address_of)(name), "down" if state == "down" else ""]
        past = before.links.get(name) if before else None
        passed = after.time - before.time if before else 0.0
        if past and passed > 0 and state != "down":
            values += [
                f"{verb} {model.rate(max(new - old, 0.0) / passed)}"
                for verb, new, old in zip(("in", "out"), after.links[name], past)
            ]
        rank = model.ESSENTIAL if name in default else model.USUAL if state != "down" else model.DETAIL
        rows.append(Row(name, tuple(filter(None, values)), level=model.DIM if state == "down" else model.OK, rank=rank))
    return rows[:_LINKS]


def address_of(name: str) -> str:
    """Return the IPv4 address of an interface, empty without one (netdevice(7))."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        request = struct.pack("256s", os.fsencode(name)[:15])
        try:
            return socket.inet_ntoa(fcntl.ioctl(asking.fileno(), _GET_ADDRESS, request)[20:24])
        except OSError:
            return ""

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Processes as /proc shows them. A pid alone is not enough: the kernel gives that of an ended process to another.

Reading /proc can hang as NVML can, where a process waits for a driver that does not answer. So the same child does both.
"""

from __future__ import annotations

import dataclasses
import os
import pwd
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts, json_text, owners
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import read_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.attribution import (
    CONTAINER,
    NOBODY,
    Names,
    Owner,
    attribute,
)

# Written by the unit that asks docker.
CONTAINERS = "/run/rigwright-gpu-containers/containers.json"
_SUBUID = "/etc/subuid"
_SESSIONS = "/run/systemd/sessions"
# proc(5), stat: the fields after the name of the program, of which the start is field 22.
_START = 19
# A process that started this long after NVML was uptime cannot be the one that NVML named. The kernel counts in 10 ms.
_TOLERANCE_S = 0.02
_NAME, _GROUP = 64, 200
# proc(5), loginuid: nobody has logged in.
_NO_LOGIN = 2**32 - 1


@dataclasses.dataclass(frozen=True)
class Process:
    """A process: *start* in seconds since the boot. One of another pid namespace has none, and the uid -1.

    *ended*: the driver lists its memory, and /proc no longer has the process.
    """

    start: float | None
    command: str
    owner: Owner
    uid: int = -1
    ended: bool = False


MISSING = Process(None, "", NOBODY)


def parse_stat(text: str, ticks: int) -> tuple[str, float] | None:
    """Return the name and the start of a process from ``/proc/PID/stat``; None where there is no process.

    The name is the process's own choice, and may contain spaces and parentheses.
    """
    head, _separator, rest = text.rpartition(")")
    fields = rest.split()
    if len(fields) <= _START or not fields[_START].isdecimal():
        return None
    return shown(head.partition("(")[2], _NAME), int(fields[_START]) / ticks


class Processes:
    """The processes of a host. Owners are kept as long as the process is: a login session may end before it."""

    def __init__(
        self,
        tree: Tree,
        users: t.Callable[[int], str] | None = None,
        ticks: int | None = None,
        uids: t.Callable[[str], int | None] = accounts.uid_of,
    ) -> None:
        self.tree = tree
        self.users = users or user_name
        self.uids = uids
        self.ticks = ticks or os.sysconf("SC_CLK_TCK")
        self._kept: dict[int, Process] = {}
        self._memory: dict[int, int] = {}

    def read(
        self, pids: t.Iterable[int], uptime: float, memory: t.Mapping[int, int] | None = None
    ) -> dict[int, Process]:
        """Read processes that NVML has named.

        :param uptime: when NVML was uptime, in seconds since the boot.
        :param memory: what NVML has said of the memory of each.
        """
        names = Names(self.users, self._service, read_containers(self.tree), self.uids, self.tree.text(_SUBUID))
        memory = memory or {}
        found = {}
        for pid in pids:
            stat = parse_stat(self.tree.text(f"/proc/{pid}/stat"), self.ticks)
            kept = self._kept.get(pid)
            if stat is None or stat[1] > uptime + _TOLERANCE_S:
                # It has ended since NVML named it: the last sample knows it, or nobody does.
                found[pid] = dataclasses.replace(kept, ended=True) if kept else MISSING
            elif kept and kept.start != stat[1] and 0 < memory.get(pid, 0) == self._memory.get(pid):
                # The driver has not released the memory of a process that has ended, and the kernel gave its pid to another one.
                found[pid] = dataclasses.replace(kept, ended=True)
            elif kept and kept.start == stat[1] and not _is_unnamed(kept):
                found[pid] = dataclasses.replace(kept, command=stat[0])
            else:
                found[pid] = self._describe(pid, stat, names)
        self._kept = {pid: process for pid, process in found.items() if process.start is not None}
        self._memory = dict(memory)
        return found

    def _describe(self, pid: int, stat: tuple[str, float], names: Names) -> Process:
        uid = owners.owner_of(self.tree, pid)
        groups = self.tree.text(f"/proc/{pid}/cgroup")
        again = parse_stat(self.tree.text(f"/proc/{pid}/stat"), self.ticks)
        if uid is None or not again or again[1] != stat[1]:
            return MISSING
        owner = attribute(groups, uid, names, self._login(pid))
        # Users name groups below their slice, and a hub those of dynamic users.
        named = dataclasses.replace(owner, user=shown(owner.user, _NAME), name=shown(owner.name, _GROUP))
        return Process(stat[1], stat[0], named, uid)

    def _login(self, pid: int) -> int | None:
        text = self.tree.text(f"/proc/{pid}/loginuid").strip()
        return int(text) if text.isdecimal() and int(text) != _NO_LOGIN else None

    def _service(self, session: str) -> str:
        # systemd keeps it readable for all users; sd_session_get_service(3) reads the same file.
        match = re.search(r"^SERVICE=(\S+)$", self.tree.text(f"{_SESSIONS}/{session}"), re.MULTILINE)
        return match[1] if match else ""


def _is_unnamed(process: Process) -> bool:
    # Docker names a container a moment after it runs.
    return process.owner.kind == CONTAINER and not process.owner.user


def user_name(uid: int) -> str:
    """Return the name of a uid now: it may be another user's tomorrow. Empty for none."""
    try:
        return shown(pwd.getpwuid(uid).pw_name, _NAME)
    except (KeyError, OverflowError):
        return ""


def read_containers(tree: Tree) -> dict[str, dict[str, str]]:
    """Read the names and users of running containers; none where nothing writes them."""
    try:
        content = json_text.parse(read_file(tree.at(CONTAINERS)))
        return {
            str(identifier): {key: shown(str(row.get(key) or ""), _NAME) for key in ("name", "user", "uid")}
            for identifier, row in content["containers"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Leases: files that name the process which uses a copy."""

from __future__ import annotations

import os
import re
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.host import read_small
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.records import GENERATION
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.text import shown


class Lease(t.NamedTuple):
    """A process that uses a copy. The name of a file holds it: the file exists or not."""

    copy: str
    pid: int
    started: int
    namespace: str
    boot: str
    since: int

    @classmethod
    def of(cls, copy: str, pid: int) -> Lease:
        """Return the lease of a process that runs."""
        started = start_of(pid)
        if started is None:
            raise ProcessLookupError(pid)
        return cls(copy, pid, started, pid_namespace(), boot_id(), int(time.clock_gettime(time.CLOCK_BOOTTIME)))

    @classmethod
    def read(cls, name: str) -> Lease | None:
        match = re.fullmatch(rf"({GENERATION})@(\d{{1,9}})@(\d+)@(\w+)@([\w-]+)@(\d+)", name, re.ASCII)
        return cls(match[1], int(match[2]), int(match[3]), match[4], match[5], int(match[6])) if match else None

    @property
    def file(self) -> str:
        return "@".join(str(part) for part in self)

    def holds(self, hours: float) -> bool:
        """Return whether the process still runs. The time of day, which may jump, does not count."""
        if self.boot != boot_id():
            return False
        if self.namespace != pid_namespace():
            return 0 <= time.clock_gettime(time.CLOCK_BOOTTIME) - self.since < hours * 3600
        started = start_of(self.pid)
        return started is not None and started in (0, self.started)


def start_of(pid: int) -> int | None:
    """Return the start of a process in ticks since boot; 0 where it is hidden from us, None when it has ended."""
    if pid <= 0:
        return None
    text = read_small(f"/proc/{pid}/stat")
    if text:
        fields = text.rpartition(")")[2].split()
        return None if fields[0] in "ZX" else int(fields[19])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return 0
    return 0


def pid_namespace() -> str:
    try:
        return "".join(c for c in os.readlink("/proc/self/ns/pid") if c.isdigit())
    except OSError:
        return "0"


def boot_id() -> str:
    return (read_small("/proc/sys/kernel/random/boot_id") or "unknown").strip()


def process_name(pid: int) -> str:
    name = read_small(f"/proc/{pid}/comm")
    return f"{pid} ({shown(name.strip())})" if name else str(pid)


def lockers(fd: int) -> list[int]:
    """Return the visible processes that hold a flock on the file."""
    status = os.fstat(fd)
    wanted = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    found = []
    for line in (read_small("/proc/locks") or "").splitlines():
        fields = line.split()
        if "FLOCK" in fields and wanted in fields and "->" not in fields and int(fields[4]) > 0:
            found.append(int(fields[4]))
    return found

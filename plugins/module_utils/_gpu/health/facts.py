# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel's log of this boot, and the processes of a host."""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import processes
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_log as log
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml

Run = t.Callable[[t.Sequence[str]], tuple[int, str, str]]

# A firewall may write a million lines into the kernel's log. So journalctl filters the lines of the driver, and prints no other field.
_KERNEL = ("journalctl", "--dmesg", "--boot", "--quiet", "--no-pager")
ANY_LINE = (*_KERNEL, "--lines=1", "--output=cat")
ALL_LINES = (*_KERNEL, "--output=json", "--output-fields=MESSAGE")
DRIVERS_LINES = (*ALL_LINES, "--grep=NVRM|SXid")
DMESG = ("dmesg",)
_BOOT_ID, _UPTIME = "/proc/sys/kernel/random/boot_id", "/proc/uptime"


@dataclasses.dataclass(frozen=True)
class Host:
    """The ways to read a host: its commands, its files, NVML, and the time of the check."""

    run: Run
    now: float
    tree: Tree = dataclasses.field(default_factory=Tree)
    nvml: t.Callable[[], Nvml] = Nvml
    # Seconds of the clock that nobody sets.
    monotonic: t.Callable[[], float] = time.monotonic


def boot_id(tree: Tree) -> str:
    """Read the id of this boot."""
    return tree.text(_BOOT_ID).strip()


def uptime_s(tree: Tree) -> float | None:
    """Read the seconds since the boot; None where the kernel does not show them."""
    fields = tree.text(_UPTIME).split()
    return float(fields[0]) if fields else None


def read_log(host: Host, unread: list[str], booted: float) -> log.Log:
    """Read the kernel's log of this boot from the journal, or from dmesg where the journal has no kernel messages.

    :param booted: the time of the boot in the clock of the check.
    :param unread: gets a message where neither can be read.
    """
    errors = []
    rc, out, err = host.run(ANY_LINE)
    if rc == 0 and out.strip():
        rc, out, err = host.run(DRIVERS_LINES)
        if rc != 0 and err.strip():
            # A journalctl without pattern matching. Without a match it prints no error.
            rc, out, err = host.run(ALL_LINES)
        if rc == 0 or not err.strip():
            return log.read(out, booted)
    errors.append(_one_line(err) or "journalctl has no kernel messages")
    rc, out, err = host.run(DMESG)
    if rc == 0 and out.strip():
        return log.read(out, booted)
    errors.append(_one_line(err) or "dmesg has nothing")
    unread.append(
        f"the kernel's log: {'; '.join(errors)}. Read it as root, or as a member of the group systemd-journal"
    )
    return log.Log()


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]


def read_pids(tree: Tree) -> frozenset[int] | None:
    """Read the ids of all processes of the host; None in a container, which does not see them."""
    if not processes.sees_all(tree):
        return None
    return frozenset(int(name) for name in tree.names("/proc") if name.isdecimal())

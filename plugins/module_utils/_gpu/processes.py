# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The processes of a GPU: ids and memory from NVML, users and commands from /proc."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import owners
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.reader import Reader

COMPUTE, GRAPHICS, MPS, SERVER = "compute", "graphics", "mps_client", "mps_server"
# A process in several lists has the kind of the first: NVML lists a client of MPS as compute, too.
_FUNCTIONS = {
    MPS: "nvmlDeviceGetMPSComputeRunningProcesses",
    COMPUTE: "nvmlDeviceGetComputeRunningProcesses",
    GRAPHICS: "nvmlDeviceGetGraphicsRunningProcesses",
}
SERVER_COMMAND = "nvidia-cuda-mps-server"
# These fill version 3 of the structure with 8 bytes more than it has, so that of several processes all but one are wrong (gpustat#161).
_WRONG_SINCE, _RIGHT_AGAIN = (535, 43), (535, 98)
# NVML's number for "no instance".
_NO_INSTANCE = 0xFFFFFFFF
# proc(5), namespaces(7): the kernel's first namespace of process ids has this number (PROC_PID_INIT_INO of the kernel).
_FIRST_NAMESPACE = "pid:[4026531836]"


class ProcessOwner(t.TypedDict):
    """The user and the command line of a process."""

    user: str | None
    command: str | None


class Use(t.TypedDict, total=False):
    """The last sample of a process."""

    sm_percent: int | None
    memory_percent: int | None
    encoder_percent: int | None
    decoder_percent: int | None


class Process(ProcessOwner, Use):
    """A process of a GPU."""

    pid: int
    kind: str
    memory_bytes: int | None
    gpu_instance_id: int | None
    compute_instance_id: int | None


def has_wrong_processes(driver: str) -> bool:
    """Check for a driver whose version 3 of the process list is wrong."""
    numbers = tuple(map(int, re.findall(r"\d+", driver)[:2]))
    return _WRONG_SINCE <= numbers < _RIGHT_AGAIN


def sees_all(tree: Tree) -> bool:
    """Check that process ids are the host's own. In a container they are not, and NVML lists no process outside."""
    return tree.link("/proc/self/ns/pid") == _FIRST_NAMESPACE


def read(reader: Reader, tree: Tree) -> list[Process] | None:
    """Read every process once; None where the GPU does not report any."""
    version = "v2" if reader.nvml and has_wrong_processes(reader.nvml.driver_version()) else "v3"
    listed = {kind: reader.ask(f"{function}_{version}") for kind, function in _FUNCTIONS.items()}
    if all(rows is None for rows in listed.values()):
        return None
    found: dict[int, Process] = {}
    for kind, rows in listed.items():
        for row in rows or []:
            owner = describe(tree, row.pid)
            found.setdefault(
                row.pid,
                {
                    "pid": row.pid,
                    "kind": SERVER if is_server(owner["command"]) else kind,
                    "memory_bytes": row.usedGpuMemory,
                    "gpu_instance_id": _instance(row.gpuInstanceId),
                    "compute_instance_id": _instance(row.computeInstanceId),
                    "user": owner["user"],
                    "command": owner["command"],
                },
            )
    return [found[pid] for pid in sorted(found)]


def is_server(command: str | None) -> bool:
    """Check that a command line is that of an MPS server."""
    return bool(command) and str(command).split()[0].rpartition("/")[2] == SERVER_COMMAND


def _instance(number: int) -> int | None:
    return None if number == _NO_INSTANCE else number


def describe(tree: Tree, pid: int) -> ProcessOwner:
    """Read the user and command line of a process; null for one that has ended, or is in another namespace."""
    uid = owners.owner_of(tree, pid)
    if uid is None:
        return {"user": None, "command": None}
    arguments = tree.text(f"/proc/{pid}/cmdline").split("\0")
    command = " ".join(arguments).strip() or tree.text(f"/proc/{pid}/comm").strip()
    return {"user": owners.user_names(tree).get(uid, str(uid)), "command": command or None}

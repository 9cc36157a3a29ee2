# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A sample of all GPUs and their processes, by NVML and /proc. Run in a child process: either may hang for ever.

NVML is open only while it is asked. An open handle would be in the way of a reset, of MIG and of a new driver.
"""

from __future__ import annotations

import ctypes
import json
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import nvml as gpu_nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.processes import (
    SERVER_COMMAND,
    has_wrong_processes,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.reader import Reader, scaled
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.state import read_memory
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import proc
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.proc import Processes
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.sample import Gpu, Process, Sample

_MPS, _COMPUTE, _GRAPHICS = (f"nvmlDeviceGet{kind}RunningProcesses" for kind in ("MPSCompute", "Compute", "Graphics"))
# The kernel keeps 15 characters of a name.
_SERVER = SERVER_COMMAND[:15]
_MIB = 1 << 20
# Processes with samples of a GPU, at most. The driver keeps a few seconds of them.
_SAMPLES = 1024
# Without an earlier read. The driver's buffer has samples of minutes, and shares since then would be those of the past.
_FIRST_S = 15
# The driver looks which process is on the GPU, about once a second or more often, and reports shares of these looks since a time. A process
# that is missing from a few looks may have been waiting for its turn; one that is missing from these seconds ran no kernel (measured:
# docs/gpu_usage.md).
_LEAST_S = 5


class _Memory(t.NamedTuple):
    """The memory of a GPU that a process holds."""

    pid: int
    memory_mib: int
    is_client: bool
    has_graphics: bool


class _Reading(t.NamedTuple):
    """A GPU before its processes have names, and the percent of the SMs of each pid that has samples."""

    gpu: Gpu
    shares: t.Mapping[int, int | None] | None
    held: t.Sequence[_Memory]


class Probe:
    """The samples of a host. It remembers which samples of the driver it has read, and who the processes are."""

    def __init__(self, processes: Processes, nvml: t.Callable[[], gpu_nvml.Nvml] = gpu_nvml.Nvml) -> None:
        self.processes = processes
        self.nvml = nvml
        self._read_until: dict[str, int] = {}

    def sample(self, uptime: float, now: float) -> Sample:
        """Return driver, problem and GPUs.

        :param uptime: seconds since the boot.
        :param now: the time of the clock.
        """
        result: Sample = {"driver": "", "problem": "", "gpus": []}
        readings: list[_Reading] = []
        try:
            with self.nvml() as nvml:
                result["driver"] = nvml.driver_version()
                for card in nvml.cards():
                    reader = Reader(nvml, card)
                    reading = self._gpu(reader, now) if not card.problem else None
                    problem = reader.problem
                    if problem:
                        result["problem"] = f"GPU {card.index} does not answer: {problem.name}: {problem.next_step}"
                    elif reading:
                        readings.append(reading)
        except NvmlError as error:
            result["problem"] = f"NVML: {error.name}: {error.next_step}"
        self._add_owners(readings, uptime, now)
        result["gpus"] = [reading.gpu for reading in readings]
        return result

    def _gpu(self, reader: Reader, now: float) -> _Reading:
        card = reader.card
        memory = read_memory(reader, card.handle)
        rates = reader.ask("nvmlDeviceGetUtilizationRates")
        gpu: Gpu = {
            "index": card.index,
            "uuid": card.uuid,
            "name": card.name,
            "memory_total_mib": (memory["total_bytes"] or 0) // _MIB,
            "memory_used_mib": (memory["used_bytes"] or 0) // _MIB,
            "utilization_percent": rates and rates.gpu,
            "temperature_c": reader.ask("nvmlDeviceGetTemperature", 0),
            "power_w": scaled(reader.ask("nvmlDeviceGetPowerUsage"), 1000),
            "power_limit_w": scaled(reader.ask("nvmlDeviceGetEnforcedPowerLimit"), 1000),
            "energy_j": scaled(reader.ask("nvmlDeviceGetTotalEnergyConsumption"), 1000),
            "processes": [],
        }
        return _Reading(gpu, self._shares(reader, now), _processes(reader))

    def _shares(self, reader: Reader, now: float) -> dict[int, int | None] | None:
        """Return the percent of the SMs of each process that has samples; None where the GPU does not report them, as with MIG.

        The interval is that since the last read, and no shorter than the driver's own.
        """
        uuid, now_us = reader.card.uuid, int(now * 1e6)
        last = self._read_until.get(uuid, now_us + 1)
        # The driver stamps samples with the clock: after the clock was set back there would be none until it is past *last*.
        since = min(last if last <= now_us else now_us - _FIRST_S * 1_000_000, now_us - _LEAST_S * 1_000_000)
        rows = _samples(reader, since)
        if rows is None:
            return None
        self._read_until[uuid] = max((row[1] for row in rows), default=min(last, now_us))
        found: dict[int, list[int]] = {}
        for pid, _stamp, percent in rows:
            found.setdefault(pid, []).append(percent)
        # A kernel that took less than a percent was a kernel. What a number beyond all percent means is unknown; some drivers have them.
        return {pid: None if max(values) > 100 else -(-sum(values) // len(values)) for pid, values in found.items()}

    def _add_owners(self, readings: t.Sequence[_Reading], uptime: float, now: float) -> None:
        memory: dict[int, int] = {}
        for row in (row for reading in readings for row in reading.held):
            memory[row.pid] = memory.get(row.pid, 0) + row.memory_mib
        found = self.processes.read(list(memory), uptime, memory)
        for reading in readings:
            reading.gpu["processes"] = _with_owners(reading, found, uptime, now)


def _with_owners(reading: _Reading, found: t.Mapping[int, proc.Process], uptime: float, now: float) -> list[Process]:
    """Return the processes with owner and share; None for a share that nobody knows.

    The samples of MPS's clients are those of their server: the share of one is unknown while the server works.
    """
    shares = reading.shares

    def own(pid: int) -> int | None:
        if shares is None or pid in shares:
            return None if shares is None else shares[pid]
        start = found[pid].start
        # The driver has not looked at it for long enough.
        return None if start is not None and start > uptime - _LEAST_S else 0

    servers = [own(row.pid) for row in reading.held if found[row.pid].command == _SERVER]
    idle_servers = bool(servers) and not any(share != 0 for share in servers)
    return [
        _described(
            row,
            found[row.pid],
            None if row.is_client and not own(row.pid) and not idle_servers else own(row.pid),
            uptime,
            now,
        )
        for row in reading.held
    ]


def _described(row: _Memory, process: proc.Process, share: int | None, uptime: float, now: float) -> Process:
    owner = process.owner
    return {
        "pid": row.pid,
        "memory_mib": row.memory_mib,
        "graphics": row.has_graphics,
        "user": owner.user,
        "kind": owner.kind,
        "name": owner.name,
        "uid": process.uid if owner.uid is None else owner.uid,
        "owner_uid": owner.uid,
        "command": process.command,
        "ended": process.ended,
        "start": process.start,
        "started": now if process.start is None else round(now - (uptime - process.start), 2),
        "share_percent": share,
    }


def _processes(reader: Reader) -> list[_Memory]:
    """Read the memory of each process. A client of MPS is in two lists, a process with MIG in one of them several times."""
    version = "v2" if reader.nvml and has_wrong_processes(reader.nvml.driver_version()) else "v3"
    found: dict[int, int] = {}
    listed: dict[str, dict[int, int]] = {}
    for function in (_MPS, _COMPUTE, _GRAPHICS):
        used = listed[function] = {}
        for row in reader.ask(f"{function}_{version}") or []:
            used[row.pid] = used.get(row.pid, 0) + (row.usedGpuMemory or 0)
        for pid, number in used.items():
            found[pid] = max(found.get(pid, 0), number)
    return [
        _Memory(pid, used // _MIB, pid in listed[_MPS], pid in listed[_GRAPHICS]) for pid, used in sorted(found.items())
    ]


def _samples(reader: Reader, since: int) -> list[tuple[int, int, int]] | None:
    """Read pid, time and percent of the samples since a time. The binding cannot: it takes an answer without samples for an error."""
    if gpu_nvml.pynvml is None or reader.nvml is None or reader.problem:
        return None
    rows = (gpu_nvml.pynvml.c_nvmlProcessUtilizationSample_t * _SAMPLES)()
    count = ctypes.c_uint(_SAMPLES)
    try:
        reader.nvml.call_library(
            "nvmlDeviceGetProcessUtilization", reader.card.handle, rows, ctypes.byref(count), ctypes.c_ulonglong(since)
        )
    except NvmlError as error:
        # No process was on the GPU in this interval.
        return [] if error.name in ("NOT_FOUND", "NO_DATA") else None
    return [(row.pid, row.timeStamp, row.smUtil) for row in rows[: count.value]]


def serve(requests: t.Iterable[str], answer: t.Callable[[str], object], probe: Probe | None = None) -> None:
    """Answer each line with a sample, until NVML cannot be used in this process, or nobody asks any more."""
    probe = probe or Probe(Processes(Tree()))
    for _request in requests:
        sample = probe.sample(time.clock_gettime(time.CLOCK_BOOTTIME), time.time())
        answer(json.dumps(sample) + "\n")
        if sample["problem"] and not sample["gpus"]:
            # A new driver comes with a new library, which only a new process loads.
            return

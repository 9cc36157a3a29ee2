# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits of GPU memory that the kernel enforces, by control group (driver 615 and later). Experimental: tested with a fake only.

NVML's nvmlDeviceSetMemoryLimits_v1 and nvmlDeviceGetMemoryLimits_v1 (nvidia-ml-py 13.615.71) take a control group and bytes, as
`nvidia-smi memory-limits` does.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import nvml as gpu_nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mps.request import (
    PROTOCOL_3_DRIVER,
    Device,
    driver_major,
    find,
    possible,
    size_mib,
)

CGROUPS = "/sys/fs/cgroup"
MIB = 2**20
_NONE = re.compile(r"0[GM]?")


@dataclasses.dataclass(frozen=True)
class Limit:
    device: str
    namespace: str
    soft: int
    hard: int

    def __str__(self) -> str:
        return f"{self.namespace} on {self.device}: soft {self.soft // MIB} MiB, hard {self.hard // MIB} MiB"


def control_group(slice_: str) -> str:
    """Return the path of a slice: systemd.slice(5) nests user-1001.slice in user.slice."""
    if slice_.startswith("/"):
        return slice_
    parts = slice_.removesuffix(".slice").split("-")
    return "/".join([CGROUPS, *(f"{'-'.join(parts[: count + 1])}.slice" for count in range(len(parts)))])


def read(
    requests: t.Sequence[t.Mapping[str, str]], devices: t.Sequence[Device], driver: str
) -> tuple[list[Limit], list[str]]:
    """Parse the requested limits, and return them with the problems."""
    limits, refusals = [], []
    if requests and driver_major(driver) < PROTOCOL_3_DRIVER:
        refusals.append(
            f"hard_limits: need driver {PROTOCOL_3_DRIVER} or later, this is {driver or 'unknown'}; memory_limits of daemons do not"
        )
    for row in requests:
        option = f"hard_limits[{row['slice']}]"
        device = find(devices, row["device"])
        soft, hard = (0 if _NONE.fullmatch(row[key]) else size_mib(row[key]) for key in ("soft", "hard"))
        if not row["slice"].endswith(".slice") and not row["slice"].startswith(f"{CGROUPS}/"):
            refusals.append(f"{option}.slice: is neither a slice, as user-1001.slice, nor a path below {CGROUPS}")
        if device is None:
            refusals.append(f"{option}.device: no GPU is {row['device']!r}; {possible(devices)}")
        elif device.divided or device.parent:
            refusals.append(
                f"{option}.device: {device.uuid} is divided (MIG), which has limits of its own; name another"
            )
        if soft is None or not hard:
            refusals.append(f"{option}: {row['soft']!r} and {row['hard']!r} are no sizes; write an integer with G or M")
        elif soft > hard:
            refusals.append(f"{option}.soft: {row['soft']} is more than hard, {row['hard']}; it may be as much")
        elif device is not None:
            limits.append(Limit(device.uuid, control_group(row["slice"]), soft * MIB, hard * MIB))
    return limits, refusals


def due(nvml: gpu_nvml.Nvml, limits: t.Sequence[Limit]) -> list[Limit]:
    """Return the limits that do not hold.

    :raises NvmlError: the driver cannot report limits.
    """
    return [limit for limit in limits if _current(nvml, limit) != (limit.soft, limit.hard)]


def apply(nvml: gpu_nvml.Nvml, limits: t.Sequence[Limit]) -> None:
    """Set limits.

    :raises NvmlError: a limit was refused, or does not hold.
    """
    for limit in limits:
        row = gpu_nvml.pynvml.c_nvmlSetMemoryLimits_v1_t()
        row.nameSpace, row.softLimit, row.hardLimit = limit.namespace.encode(), limit.soft, limit.hard
        nvml.call("nvmlDeviceSetMemoryLimits_v1", nvml.find(limit.device).handle, row)
        if _current(nvml, limit) != (limit.soft, limit.hard):
            raise gpu_nvml.NvmlError(gpu_nvml.CODES["INVALID_STATE"], "nvmlDeviceGetMemoryLimits_v1")


def _current(nvml: gpu_nvml.Nvml, limit: Limit) -> tuple[int, int]:
    row = gpu_nvml.pynvml.c_nvmlGetMemoryLimits_v1_t()
    row.nameSpace = limit.namespace.encode()
    nvml.call("nvmlDeviceGetMemoryLimits_v1", nvml.find(limit.device).handle, row)
    return row.softLimit, row.hardLimit

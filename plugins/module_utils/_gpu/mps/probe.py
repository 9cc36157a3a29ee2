# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prove that a program runs under an MPS daemon, and with which limits: a process of its own asks the CUDA driver.

In compute mode DEFAULT a client that does not find its daemon runs without MPS and limits, and reports no error. Only the driver
shows it: by device attribute 133, and by the number of multiprocessors.

This file is also the program of the probe: ``python -c`` runs :func:`source`, so it imports nothing of the collection.
"""

from __future__ import annotations

import ctypes
import json
import sys
import typing as t

# cuda.h
MULTIPROCESSOR_COUNT = 16
MPS_ENABLED = 133
OUT_OF_MEMORY = 2
MIB = 2**20
TIMEOUT_S = 60
# Multiprocessors are assigned in pairs (a TPC has two); some chips round to larger groups.
SM_SLACK = 2
# The context itself needs this much of a limit.
ABOVE_LIMIT_MIB = 64


class Wanted(t.TypedDict):
    """The standard input of the program."""

    limits_mib: dict[str, int]
    contexts: bool


class Device(t.TypedDict):
    """A device of a client. With a context it has the memory that is free, and the code for an allocation beyond the limit."""

    ordinal: int
    uuid: str
    multiprocessors: int | None
    mps: int | None
    memory_total_mib: int
    memory_free_mib: t.NotRequired[int]
    beyond_limit: t.NotRequired[int]


class CudaError(t.TypedDict):
    """A function that failed, with the driver's code."""

    function: str
    code: int
    words: str  # kept: a key of the result


class Account(t.TypedDict):
    """The devices that a new program sees, and where it ended."""

    devices: list[Device]
    error: CudaError | None


class Failed(Exception):
    """A function of the driver did not return 0."""

    def __init__(self, function: str, code: int) -> None:
        self.function, self.code = function, code
        super().__init__(f"{function}: {code}")


def source() -> str:
    """Return the text of this file, also where Ansible has packed it into an archive."""
    loader = t.cast("t.Any", __spec__).loader
    return t.cast(str, loader.get_source(__name__))


def request(limits_mib: t.Mapping[str, int], contexts: bool) -> str:
    """Return the standard input of the program. *contexts*: open one on each device, and try the limit of memory."""
    limits = {plain_uuid(uuid): mib for uuid, mib in limits_mib.items()}
    return json.dumps({"limits_mib": limits, "contexts": contexts})


def probe_devices(wanted: Wanted) -> Account:
    """Return what a new program sees. ``error``: where it ended, with the driver's code."""
    account: Account = {"devices": [], "error": None}
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        account["error"] = {"function": "libcuda.so.1", "code": -1, "words": str(error)}
        return account

    def call(function: str, *arguments: t.Any) -> None:
        code = getattr(cuda, function)(*arguments)
        if code:
            raise Failed(function, code)

    try:
        call("cuInit", 0)
        count = ctypes.c_int()
        call("cuDeviceGetCount", ctypes.byref(count))
        for ordinal in range(count.value):
            account["devices"].append(probe_device(call, ordinal, wanted))
    except Failed as error:
        account["error"] = {"function": error.function, "code": error.code, "words": ""}
    return account


def probe_device(call: t.Callable[..., None], ordinal: int, wanted: Wanted) -> Device:
    device, number = ctypes.c_int(), ctypes.c_int()
    call("cuDeviceGet", ctypes.byref(device), ordinal)

    def attribute(wanted_attribute: int) -> int | None:
        try:
            call("cuDeviceGetAttribute", ctypes.byref(number), wanted_attribute, device)
        except Failed:
            # The driver is older than the attribute.
            return None
        return number.value

    total, free = ctypes.c_size_t(), ctypes.c_size_t()
    call("cuDeviceTotalMem_v2", ctypes.byref(total), device)
    found: Device = {
        "ordinal": ordinal,
        "uuid": uuid_of(call, device),
        "multiprocessors": attribute(MULTIPROCESSOR_COUNT),
        "mps": attribute(MPS_ENABLED),
        "memory_total_mib": total.value // MIB,
    }
    if wanted["contexts"]:
        context = ctypes.c_void_p()
        call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        try:
            call("cuCtxSetCurrent", context)
            call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
            found["memory_free_mib"] = free.value // MIB
            limit = wanted["limits_mib"].get(plain_uuid(found["uuid"]))
            if limit:
                found["beyond_limit"] = allocate(call, (limit + ABOVE_LIMIT_MIB) * MIB)
        finally:
            call("cuCtxSetCurrent", None)
            call("cuDevicePrimaryCtxRelease_v2", device)
    return found


def allocate(call: t.Callable[..., None], size: int) -> int:
    """Return the driver's code for an allocation of this size, which is freed at once: 2 is out of memory."""
    at = ctypes.c_uint64()
    try:
        call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(size))
    except Failed as error:
        return error.code
    call("cuMemFree_v2", at)
    return 0


def uuid_of(call: t.Callable[..., None], device: ctypes.c_int) -> str:
    """Return a UUID as NVML writes it. Of a MIG instance `cuDeviceGetUuid_v2` gives the instance's own."""
    raw = (ctypes.c_ubyte * 16)()
    call("cuDeviceGetUuid_v2", raw, device)
    text = bytes(raw).hex()
    return "-".join(["GPU", text[:8], text[8:12], text[12:16], text[16:20], text[20:]])


def read(text: str) -> Account:
    """Parse the output of the program.

    :raises ValueError: the output has no result.
    """
    lines = [line for line in text.splitlines() if line.startswith('{"devices"')]
    if not lines:
        raise ValueError(text.strip())
    return t.cast("Account", json.loads(lines[-1]))


def most_multiprocessors(total: int, percentage: int) -> int:
    """Return the most multiprocessors that a client may see: its share, rounded up to whole groups."""
    return min(total, -(-total * percentage // 100) + SM_SLACK)


def plain_uuid(uuid: str) -> str:
    """Return a UUID without its prefix: the driver reports instances as GPUs."""
    return uuid.partition("-")[2].lower()


def judge(
    account: Account,
    outside: Account | None,
    percentage: int | None,
    limits_mib: t.Mapping[str, int],
    devices: t.Sequence[str],
) -> list[str]:
    """Return the problems of a client's devices; none if the daemon is proven.

    :param outside: the devices of a program without MPS, for the number of multiprocessors; None without such a probe.
    """
    problems = []
    found = {plain_uuid(device["uuid"]): device for device in account["devices"]}
    whole = {
        plain_uuid(device["uuid"]): device["multiprocessors"] for device in (outside["devices"] if outside else [])
    }
    if len(found) < len(devices):
        problems.append(f"a client sees {len(found)} of the daemon's {len(devices)} devices")
    for device in account["devices"]:
        if device["mps"] != 1:
            problems.append(
                f"a client on {device['uuid']} runs outside MPS and without limits (device attribute {MPS_ENABLED} is {device['mps']})"
            )
        total = whole.get(plain_uuid(device["uuid"]))
        if percentage and total and (device["multiprocessors"] or 0) > most_multiprocessors(total, percentage):
            problems.append(
                f"a client on {device['uuid']} has {device['multiprocessors']} of {total} multiprocessors, more than {percentage} %"
            )
    for uuid, limit in limits_mib.items():
        limited = found.get(plain_uuid(uuid))
        if limited and limited.get("memory_free_mib", 0) > limit and not limited.get("beyond_limit"):
            problems.append(f"a client on {uuid} was given more memory than its limit of {limit} MiB")
    return problems


if __name__ == "__main__":
    sys.stdout.write(json.dumps(probe_devices(json.loads(sys.stdin.read()))) + "\n")

# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs, limits, servers and clients of the fake control daemon of MPS (control.py)."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass, field
from typing import Any

TABLE = "/usr/lib/rigwright-fake-gpu/cuda"
CLIENTS_PER_DEVICE = 48
# Volta's way of errors: names of cuda.h.
SERVER_NOT_READY, MAX_CLIENTS, INVALID_RESOURCE_CONFIGURATION = 807, 808, 914
SUN_PATH = 107  # bytes of a socket's path, unix(7)
CHUNK_SMS = 8  # Hopper and later
MIB = 2**20
SIZES = {"K": 1024, "M": MIB, "G": 1024 * MIB}


@dataclass(frozen=True)
class Gpu:
    uuid: str
    sms: int
    memory_mib: int
    name: str


def read_table() -> list[Gpu]:
    try:
        with open(os.environ.get("RIGWRIGHT_FAKE_CUDA", TABLE), encoding="utf-8") as file:
            rows = [line.split(maxsplit=3) for line in file if line.strip()]
    except OSError:
        return []
    return [Gpu(uuid, int(sms), int(mib), name.strip()) for uuid, sms, mib, name in rows]


def visible(gpus: list[Gpu], wanted: str | None) -> list[Gpu]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES names; a name of no GPU hides all after it."""
    if wanted is None:
        return gpus
    devices = []
    for word in (word.strip() for word in wanted.split(",")):
        found = find(gpus, word)
        if found is None:
            break
        devices.append(found)
    return devices


def find(gpus: list[Gpu], word: str) -> Gpu | None:
    if word.isdecimal():
        return gpus[int(word)] if int(word) < len(gpus) else None
    return next((gpu for gpu in gpus if len(word) > 4 and gpu.uuid.startswith(word)), None)


def size(text: str) -> int | None:
    match = re.fullmatch(r"(\d+)([KMG])B?", text)
    return int(match.group(1)) * SIZES[match.group(2)] if match else None


def shown(bytes_: int) -> str:
    """Return a limit as the daemon reports it: from one GiB on in whole GiB, rounded down."""
    return f"{bytes_ // SIZES['G']}G" if bytes_ >= SIZES["G"] else f"{bytes_ // MIB}M"


@dataclass
class Limits:
    percentage: float = 100.0
    memory: dict[str, int] = field(default_factory=dict)  # by what the verb named: an ordinal or a UUID, untranslated
    priority: int = 0

    def copy(self) -> Limits:
        return Limits(self.percentage, dict(self.memory), self.priority)


@dataclass
class Client:
    pid: int
    server: int
    command: str
    namespace: str = "default"
    connection: socket.socket | None = None
    faulted: bool = False


@dataclass
class Server:
    pid: int
    uid: int
    name: str
    limits: dict[str, Limits]  # by namespace
    devices: list[Gpu]
    status: str = "ACTIVE"


@dataclass
class Partition:
    device: Gpu
    name: str
    chunks: int
    id: str
    server: str = ""


class Refused(Exception):
    """The daemon refuses; the text is its answer."""


@dataclass
class Options:
    daemon: bool = False
    foreground: bool = False
    static: bool = False
    multiuser: bool = False
    protocol: int = 2
    apply: str = ""


def new_server(uid: int) -> dict[str, Any]:
    return {"uid": uid, "devices": None, "bad": False, "limits": {"default": Limits()}}


def limits_of(table: dict[str, Any]) -> Limits:
    limits = Limits()
    if "active_thread_percentage" in table:
        limits.percentage = percent(str(table["active_thread_percentage"]))
    if "pinned_memory_limit" in table:
        set_memory(limits, "*", str(table["pinned_memory_limit"]))
    if "client_priority" in table:
        limits.priority = int(table["client_priority"])
    return limits


def percent(text: str) -> float:
    value = float(text)
    if not 0 < value <= 100:
        raise Refused(f"Invalid active thread percentage {text}")
    return value


def set_memory(limits: Limits, device: str, value: str) -> None:
    bytes_ = size(value)
    if bytes_ is None:
        raise Refused(f"Invalid memory limit {value}")
    limits.memory.pop(device, None)
    limits.memory[device] = bytes_  # the last one that names a device holds


def get_memory(limits: Limits, device: str) -> list[str]:
    return [shown(limits.memory[device])] if device in limits.memory else []


def parse(arguments: list[str]) -> Options:
    options = Options()
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word in ("-d", "--daemon"):
            options.daemon = True
        elif word in ("-f", "--foreground"):
            options.foreground = True
        elif word in ("-S", "--static-partitioning"):
            options.static = True
        elif word in ("-multiuser-server", "-m", "--multiuser"):
            options.multiuser = True
        elif word in ("-p", "--protocol"):
            options.protocol = int(rest.pop(0))
        elif word in ("-a", "--apply"):
            options.apply = rest.pop(0)
    options.protocol = int(os.environ.get("CUDA_MPS_PROTOCOL_VERSION", options.protocol))
    return options

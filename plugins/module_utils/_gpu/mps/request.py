# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parse and validate requested MPS daemons. Pure.

Sources, where none is named: NVIDIA's pages below docs.nvidia.com/deploy/mps (release 615, 9 Sep 2026).
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import pci_address

STARTED = "started"
STOPPED = "stopped"
ABSENT = "absent"
FAIL = "fail"
DRAIN = "drain"
DEFER = "defer"
NORMAL = "normal"
BELOW_NORMAL = "below_normal"
PRIORITIES = {NORMAL: 0, BELOW_NORMAL: 1}

# The first driver with protocol 3 and with limits of memory that the kernel enforces.
PROTOCOL_3_DRIVER = 615
# Volta: clients have address spaces of their own, percentages and limits. (Volta is 7.0: a comparison with 7.5 would exclude a V100.)
VOLTA = (7, 0)
# H100, H200. Under these percentages matrix products in bf16 were right on an H200; under 20, 30, 40, 60, 65, 70, 75 and 80 they were wrong
# (docs/measurements/gpu_percentages_h200.json: driver 580.159.04, PyTorch 2.11 with CUDA 13.0; docs/gpu_sharing.md).
HOPPER = (9, 0)
FOUND_RIGHT = (10, 50, 90, 100)
CLIENTS_PER_DEVICE = {True: 48, False: 16}
# unix(7): the longest path of a socket. A daemon with a longer one ends without a message.
SUN_PATH = 107
ALL = "all"

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_SIZE = re.compile(r"([1-9]\d{0,6})([GM])")


@dataclasses.dataclass(frozen=True)
class Device:
    """A device of a daemon: a GPU or a MIG instance. ``divided``: a GPU in MIG mode, whose instances are the devices."""

    uuid: str
    index: str = ""
    pci_address: str = ""
    name: str = ""
    divided: bool = False
    parent: str = ""
    compute_mode: str = "DEFAULT"
    capability: tuple[int, int] | None = None
    memory_mib: int | None = None

    @property
    def volta(self) -> bool:
        return self.capability is None or self.capability >= VOLTA


@dataclasses.dataclass(frozen=True)
class Partition:
    name: str
    device: str
    chunks: int


@dataclasses.dataclass(frozen=True)
class Namespace:
    """A part of a server of protocol 3, with limits of its own."""

    name: str
    percentage: int | None = None
    memory_mib: int | None = None
    priority: int | None = None


@dataclasses.dataclass(frozen=True)
class Daemon:
    """A requested daemon. Devices are UUIDs; a limit that is None is not set."""

    name: str
    state: str = STARTED
    devices: tuple[str, ...] = ()
    user: str = ""
    multiuser: bool = False
    percentage: int | None = None
    memory_mib: t.Mapping[str, int] = dataclasses.field(default_factory=dict)
    priority: int | None = None
    partitions: tuple[Partition, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    protocol: int = 2
    pipe: str = ""
    log: str = ""

    @property
    def server(self) -> str:
        """Return the name of its server on protocol 3, which takes small letters, digits and underscores."""
        return self.name.lower().replace("-", "_")


class PartitionRequest(t.TypedDict):
    """A partition as a user declares it."""

    name: str
    device: str
    chunks: int


class NamespaceRequest(t.TypedDict, total=False):
    """A namespace as a user declares it."""

    name: str
    active_thread_percentage: int | None
    memory_limit: str | None
    priority: str | None


class DaemonRequest(t.TypedDict, total=False):
    """A daemon as a user declares it. All but the name is optional."""

    name: str
    state: str | None
    protocol: str | None
    devices: list[str] | None
    user: str | None
    multiuser: bool | None
    active_thread_percentage: int | None
    memory_limits: dict[str, str] | None
    priority: str | None
    partitions: list[PartitionRequest] | None
    namespaces: list[NamespaceRequest] | None
    clients: int | None


class Wanted(t.NamedTuple):
    """The parsed request. With a refusal nothing may be written."""

    daemons: list[Daemon]
    refusals: list[str]
    advice: list[str]


def driver_major(version: str) -> int:
    """Return the major version of a driver; 0 for text that is no version."""
    head = version.partition(".")[0]
    return int(head) if head.isdecimal() else 0


def protocol_for(wanted: str, driver: str) -> int:
    if wanted == "auto":
        return 3 if driver_major(driver) >= PROTOCOL_3_DRIVER else 2
    return int(wanted)


def size_mib(text: str) -> int | None:
    match = _SIZE.fullmatch(text.strip())
    return int(match.group(1)) * (1024 if match.group(2) == "G" else 1) if match else None


def advised_percentage(clients: int) -> int:
    """Return NVIDIA's advice for so many clients: 100 / (0.5 n), since the percentage is a ceiling and not a reservation."""
    return min(100, round(200 / max(1, clients)))


def find(devices: t.Sequence[Device], wanted: str) -> Device | None:
    """Find a device by UUID, PCI address (any case, four or eight digits of domain) or index."""
    text, address = wanted.strip().lower(), pci_address(wanted)
    return next(
        (
            device
            for device in devices
            if text in (device.uuid.lower(), device.index or None) or (address and address == device.pci_address)
        ),
        None,
    )


def possible(devices: t.Sequence[Device]) -> str:
    rows = [f"{device.index + ' = ' if device.index else ''}{device.uuid}" for device in devices if not device.divided]
    return f"there are {', '.join(rows)}" if rows else "NVML shows none"


def wanted(
    requests: t.Sequence[DaemonRequest],
    devices: t.Sequence[Device],
    driver: str,
    pipe_root: str,
    log_root: str,
) -> Wanted:
    """Parse the requested daemons, and return them with the problems."""
    result = Wanted([], [], [])
    for request in requests:
        reader = _Reader(request, devices, driver, result)
        result.daemons.append(reader.read(pipe_root, log_root))
    names = [daemon.name for daemon in result.daemons]
    for name in sorted({name for name in names if names.count(name) > 1}):
        result.refusals.append(f"daemons: {name} is there twice; give each daemon a name of its own")
    _refuse_shared_exclusive(result, devices)
    return result


def _refuse_shared_exclusive(result: Wanted, devices: t.Sequence[Device]) -> None:
    for device in devices:
        owners = [owner.name for owner in result.daemons if owner.state == STARTED and device.uuid in owner.devices]
        if device.compute_mode == "EXCLUSIVE_PROCESS" and len(owners) > 1:
            result.refusals.append(
                f"daemons: {' and '.join(owners)} share {device.uuid}, which is in EXCLUSIVE_PROCESS mode and takes one server;"
                " set its compute mode to DEFAULT (gpu_mode), or give it to one of them"
            )


class _Reader:
    """A parser of one request; it collects all refusals."""

    def __init__(self, request: DaemonRequest, devices: t.Sequence[Device], driver: str, result: Wanted) -> None:
        self.request, self.devices, self.driver, self.made = request, devices, driver, result
        self.name: str = request["name"]

    def refuse(self, option: str, text: str) -> None:
        self.made.refusals.append(f"daemons[{self.name}].{option}: {text}")

    def read(self, pipe_root: str, log_root: str) -> Daemon:
        request = self.request
        if not _NAME.fullmatch(self.name):
            self.refuse("name", "is no name; take a letter, then up to 31 letters, digits, - and _")
        state = request.get("state") or STARTED
        protocol = protocol_for(str(request.get("protocol") or "auto"), self.driver)
        # A daemon that has to stop may name devices that are gone.
        devices = self.read_devices() if state == STARTED else []
        daemon = Daemon(
            name=self.name,
            state=state,
            devices=tuple(device.uuid for device in devices),
            user=request.get("user") or "",
            multiuser=bool(request.get("multiuser")),
            percentage=self.read_percentage(request, "active_thread_percentage"),
            memory_mib=self.read_memory(devices) if state == STARTED else {},
            priority=PRIORITIES.get(request.get("priority") or ""),
            partitions=self.read_partitions(devices) if state == STARTED else (),
            namespaces=self.read_namespaces(protocol) if state == STARTED else (),
            protocol=protocol,
            pipe=f"{pipe_root.rstrip('/')}/{self.name}",
            log=f"{log_root.rstrip('/')}/{self.name}",
        )
        if state == STARTED:
            self.check(daemon, devices)
        return daemon

    def read_devices(self) -> list[Device]:
        named = [str(name) for name in self.request.get("devices") or []]
        found = []
        for word in named:
            device = find(self.devices, word)
            if device is None:
                self.refuse("devices", f"no device is {word!r}; {possible(self.devices)}")
            elif device.divided:
                own = [name.uuid for name in self.devices if name.parent == device.uuid]
                self.refuse(
                    "devices",
                    f"{device.uuid} is divided (MIG), and a daemon works on an instance: name one of {', '.join(own) or 'none yet'}",
                )
            else:
                found.append(device)
        if not named:
            found = [device for device in self.devices if not device.divided and not device.parent]
            if not found:
                self.refuse("devices", f"no undivided GPU; {possible(self.devices)}")
        return list(dict.fromkeys(found))

    def read_percentage(self, table: DaemonRequest | NamespaceRequest, option: str) -> int | None:
        value = table.get("active_thread_percentage")
        if value is not None and not 1 <= value <= 100:
            self.refuse(option, f"{value} is not possible; 1 to 100 is")
            return None
        return value

    def read_size(self, option: str, text: str) -> int | None:
        mib = size_mib(str(text))
        if mib is None:
            self.refuse(option, f"{text!r} is no size; write an integer with G or M, as 20G")
        return mib

    def read_memory(self, devices: t.Sequence[Device]) -> dict[str, int]:
        found: dict[str, int] = {}
        limits = {str(key): value for key, value in (self.request.get("memory_limits") or {}).items()}
        for word, text in sorted(limits.items(), key=lambda item: item[0] != ALL):
            mib = self.read_size(f"memory_limits[{word}]", text)
            device = find(self.devices, word)
            if word != ALL and (device is None or device not in devices):
                # MPS accepts such an entry; as a variable of a client it drops all limits (docs/gpu_sharing.md).
                self.refuse(
                    f"memory_limits[{word}]",
                    "names a GPU that this daemon does not have, which would drop all its limits;"
                    f" name one of {', '.join(each.uuid for each in devices) or 'its devices'}, or {ALL}",
                )
            elif mib is not None:
                for each in devices if word == ALL else [t.cast(Device, device)]:
                    found[each.uuid] = mib
                    if each.memory_mib is not None and mib > each.memory_mib:
                        self.made.advice.append(
                            f"{self.name}: a limit of {text} limits nothing on {each.uuid}, which has {each.memory_mib} MiB"
                        )
        return found

    def read_partitions(self, devices: t.Sequence[Device]) -> tuple[Partition, ...]:
        partitions = []
        for row in self.request.get("partitions") or []:
            device = find(devices, str(row["device"]))
            if device is None:
                self.refuse(
                    "partitions", f"{row['name']}: the daemon has no device {row['device']!r}; {possible(devices)}"
                )
            elif row["chunks"] < 1:
                self.refuse("partitions", f"{row['name']}: {row['chunks']} chunks are not possible; 1 and more are")
            elif not _NAME.fullmatch(row["name"]):
                self.refuse("partitions", f"{row['name']!r} is no name; take letters, digits, - and _")
            else:
                partitions.append(Partition(row["name"], device.uuid, row["chunks"]))
        names = [partition.name for partition in partitions]
        if len(set(names)) < len(names):
            self.refuse("partitions", "two have the same name; give each its own")
        return tuple(partitions)

    def read_namespaces(self, protocol: int) -> tuple[Namespace, ...]:
        rows = self.request.get("namespaces") or []
        if rows and protocol == 2:
            self.refuse("namespaces", f"need protocol 3, which the driver has from {PROTOCOL_3_DRIVER} on")
            return ()
        namespaces = []
        for row in rows:
            name = row["name"]
            if not re.fullmatch(r"[a-z0-9_]{1,64}", name) or name == "default":
                self.refuse("namespaces", f"{name!r} is no name; small letters, digits and _ are, and not `default`")
            text = row.get("memory_limit")
            memory = self.read_size(f"namespaces[{name}].memory_limit", text) if text else None
            percentage = self.read_percentage(row, f"namespaces[{name}].active_thread_percentage")
            # The limits of a server are those of its `default` alone: a namespace without limits has the whole GPU.
            namespaces.append(
                Namespace(
                    name,
                    percentage if percentage is not None else self.request.get("active_thread_percentage"),
                    memory if memory is not None else self.server_memory(),
                    PRIORITIES.get(row.get("priority") or self.request.get("priority") or ""),
                )
            )
        return tuple(namespaces)

    def server_memory(self) -> int | None:
        sizes = [size_mib(str(text)) for text in (self.request.get("memory_limits") or {}).values()]
        return min((size for size in sizes if size), default=None)

    def check(self, daemon: Daemon, devices: t.Sequence[Device]) -> None:
        request = self.request
        if daemon.user and daemon.multiuser:
            self.refuse("multiuser", "and `user` exclude each other: one server for all, or the daemon of one user")
        older = [device.uuid for device in devices if not device.volta]
        if daemon.multiuser and older:
            self.refuse("multiuser", f"needs Volta or newer: {', '.join(older)} would refuse all users but root")
        if daemon.protocol == 3 and driver_major(self.driver) < PROTOCOL_3_DRIVER:
            self.refuse(
                "protocol", f"3 needs driver {PROTOCOL_3_DRIVER}, this is {self.driver or 'unknown'}; take auto or 2"
            )
        if daemon.protocol == 3 and len(set(daemon.memory_mib.values())) > 1:
            self.refuse(
                "memory_limits", "protocol 3 has one limit for a server: the same for each device, or a daemon each"
            )
        if daemon.protocol == 3 and 0 < len(daemon.memory_mib) < len(devices):
            self.refuse("memory_limits", "protocol 3 has one limit for a server: name every device, or `all`")
        if daemon.partitions and daemon.protocol == 2 and daemon.percentage is not None:
            self.refuse("active_thread_percentage", "is ignored where there are partitions: leave one of them out")
        if len(devices) > 1 and any(device.parent for device in devices):
            self.refuse("devices", "a daemon has one MIG instance: give each instance a daemon of its own")
        for device in devices:
            if device.parent and device.compute_mode == "EXCLUSIVE_PROCESS":
                self.refuse("devices", f"{device.uuid}: MPS in MIG needs compute mode DEFAULT, not EXCLUSIVE_PROCESS")
            if device.compute_mode == "PROHIBITED":
                self.refuse("devices", f"{device.uuid} is in compute mode PROHIBITED; set DEFAULT (gpu_mode)")
            if not device.volta and (daemon.percentage or daemon.memory_mib or daemon.partitions):
                self.refuse("devices", f"{device.uuid} is older than Volta and has no limits under MPS; leave them out")
        longest = max(
            [daemon.server, *(f"{daemon.server}/{namespace.name}" for namespace in daemon.namespaces)], key=len
        )
        socket = f"{daemon.pipe}/{longest}/default/control" if daemon.protocol == 3 else f"{daemon.pipe}/control"
        if len(socket.encode()) > SUN_PATH:
            self.refuse(
                "name",
                f"its socket {socket} has {len(socket.encode())} bytes and a socket may have {SUN_PATH}; take a shorter pipe_root",
            )
        self.advise(daemon, devices, request.get("clients"))
        self.warn_of_percentages(daemon, devices)

    def advise(self, daemon: Daemon, devices: t.Sequence[Device], clients: int | None) -> None:
        if not clients:
            return
        most = min((CLIENTS_PER_DEVICE[device.volta] for device in devices), default=0)
        if clients > most:
            self.refuse("clients", f"{clients} are too many: MPS takes {most} for a device")
        best = advised_percentage(clients)
        if not daemon.partitions and daemon.percentage != best and (daemon.percentage or 100) != best:
            self.made.advice.append(
                f"{daemon.name}: NVIDIA advises {best} % for {clients} clients, 100 / (0.5 n); it is {daemon.percentage or 100} %"
            )

    def warn_of_percentages(self, daemon: Daemon, devices: t.Sequence[Device]) -> None:
        """Warn of percentages that gave wrong results. They give no error, and the client that proves a daemon computes nothing."""
        if not any(device.capability == HOPPER for device in devices):
            return
        # The measurement is of a whole card: a MIG instance has other numbers of multiprocessors.
        right = (100,) if any(device.parent for device in devices) else FOUND_RIGHT
        percentages = {daemon.percentage, *(namespace.percentage for namespace in daemon.namespaces)} - {None, *right}
        for percentage in sorted(t.cast("set[int]", percentages)):
            self.made.advice.append(
                f"{self.name}: {percentage} % is none of those under which matrix products were found right on Hopper"
                f" ({', '.join(map(str, right))} %), and a wrong one gives no error: compare results with those under 100 % first"
                " (docs/gpu_sharing.md)"
            )

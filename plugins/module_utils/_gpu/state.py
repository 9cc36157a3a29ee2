# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The facts of one GPU as plain data. A value that the card does not have is null, never 0. Names end with the unit."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import ceilings, counters, fabric, processes
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import locked_clocks as record
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.card_facts import (
    CardMemory,
    Clocks,
    Compute,
    Facts,
    Identity,
    Link,
    Memory,
    MigDevice,
    Modes,
    Nvlink,
    Place,
    Sharing,
    Temperature,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card, Nvml, pci_address
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.reader import (
    Reader,
    bits,
    first,
    flag,
    named,
    scaled,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system import pci

# The numbers below are nvml.h's, of CUDA 13 (nvidia-ml-py 13.615).
BRANDS = {
    1: "quadro",
    2: "tesla",
    3: "nvs",
    4: "grid",
    5: "geforce",
    6: "titan",
    7: "nvidia_vapps",
    8: "nvidia_vpc",
    9: "nvidia_vcs",
    10: "nvidia_vws",
    11: "nvidia_cloud_gaming",
    12: "quadro_rtx",
    13: "nvidia_rtx",
    14: "nvidia",
    15: "geforce_rtx",
    16: "titan_rtx",
    18: "nvidia_vgamedev",
}
ARCHITECTURES = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}
COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
CLOCKS = {"graphics": 0, "sm": 1, "memory": 2, "video": 3}
EVENT_REASONS = {
    0x1: "idle",
    0x2: "applications_clocks",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "power_brake",
    0x100: "display_clock",
    0x200: "board_limit",
    0x400: "reliability",
}
THRESHOLDS = {"shutdown": 0, "slowdown": 1, "memory_max": 2, "gpu_max": 3}
LINK_TARGETS = {0: "gpu", 1: "ibm_npu", 2: "switch", 255: "unknown"}
INFOROM_OBJECTS = {"oem": 0, "ecc": 1, "power": 2}
# nvmlMemory_v2_t: the first version that separates reserved memory from used memory.
MEMORY_V2 = 0x02000028
MEMORY_TEMPERATURE = 82
T_LIMITS = {"shutdown": 193, "slowdown": 194, "memory_max": 195, "gpu_max": 196}
POWER_AVERAGE = 185
RESETLESS_MIG = 184
LINK_COUNT, LINK_SPEED = 91, 164
_FIELDS = (MEMORY_TEMPERATURE, *T_LIMITS.values(), POWER_AVERAGE, RESETLESS_MIG, LINK_COUNT, *counters.FIELDS)

_PROFILE = re.compile(r"MIG (\S+)$")


def read_card(nvml: Nvml | None, card: Card, tree: Tree | None = None) -> Facts:
    """Read the facts of one GPU. A lost GPU, or one without a driver, has the same keys, with ``problem`` or with nulls.

    :param nvml: None where it cannot be opened.
    :param tree: the root of /proc and /sys.
    """
    reader = Reader(nvml, card)
    tree = tree or Tree()
    reader.load(_FIELDS)
    modes = _modes(reader)
    mig_devices = _mig_devices(reader) if modes["mig"] and modes["mig"]["current"] else []
    listed = processes.read(reader, tree)
    identity = _identity(reader)
    max_mhz = {name: reader.ask("nvmlDeviceGetMaxClockInfo", number) for name, number in CLOCKS.items()}
    return {
        "index": card.index,
        "uuid": card.uuid or None,
        "name": card.name or None,
        "pci_address": card.pci_address or None,
        **identity,
        **_place(tree, card.pci_address),
        "memory": _memory(reader, max_mhz["memory"]),
        "compute": _compute(reader, identity["compute_capability"], identity["brand"], max_mhz["sm"]),
        "pcie": _pcie(reader),
        "nvlink": _nvlink(reader),
        "fabric": fabric.read(reader),
        "modes": modes,
        "mig_devices": mig_devices,
        "power": _power(reader),
        "clocks": _clocks(reader, max_mhz, _locked(tree, card.uuid)),
        "temperature": _temperature(reader),
        "fans_percent": _fans(reader),
        "utilization": _utilization(reader),
        "counters": counters.read(reader),
        "processes": listed,
        "sharing": sharing(modes, listed, mig_devices),
        "unreadable": reader.unreadable,
        "problem": reader.problem.as_result() if reader.problem else None,
    }


def _identity(reader: Reader) -> Identity:
    ids = reader.card.pci_ids
    capability = reader.ask("nvmlDeviceGetCudaComputeCapability")
    brand = reader.ask("nvmlDeviceGetBrand")
    architecture = reader.ask("nvmlDeviceGetArchitecture")
    return {
        "serial": reader.ask("nvmlDeviceGetSerial"),
        "brand": named(brand or None, BRANDS),
        "architecture": named(architecture, ARCHITECTURES),
        "compute_capability": capability and ".".join(map(str, capability)),
        "pci_device_id": ids and _pci_id(ids[0]),
        "pci_subsystem_id": ids and _pci_id(ids[1]),
        "minor": reader.ask("nvmlDeviceGetMinorNumber"),
        "board_part": reader.ask("nvmlDeviceGetBoardPartNumber"),
        "vbios": reader.ask("nvmlDeviceGetVbiosVersion"),
        "inforom": {
            "image": reader.ask("nvmlDeviceGetInforomImageVersion"),
            **{name: reader.ask("nvmlDeviceGetInforomVersion", number) for name, number in INFOROM_OBJECTS.items()},
        },
        "gsp_firmware": reader.ask("nvmlDeviceGetGspFirmwareVersion"),
    }


def _place(tree: Tree, address: str) -> Place:
    """Read the NUMA node and the processors that are near the card."""
    directory = f"{pci.DEVICES}/{address}"
    node = tree.text(f"{directory}/numa_node").strip() if address else ""
    return {
        # -1 is a machine without NUMA.
        "numa_node": int(node) if node.isdecimal() else None,
        "cpu_affinity": (tree.text(f"{directory}/local_cpulist").strip() if address else "") or None,
    }


def _pci_id(number: int) -> str:
    """Return vendor and device: NVML has the device in the upper half of the number, 0x233510de is 10de:2335."""
    return f"{number & 0xFFFF:04x}:{number >> 16:04x}"


def read_memory(reader: Reader, handle: t.Any) -> Memory:
    """Read the memory of a GPU or of a MIG instance, in bytes."""
    memory = reader.ask_of(handle, "nvmlDeviceGetMemoryInfo", MEMORY_V2)
    reserved = memory and memory.reserved
    if memory is None:
        # Drivers before 510 count reserved memory as used, and do not report it.
        memory = reader.ask_of(handle, "nvmlDeviceGetMemoryInfo")
    return {
        "total_bytes": memory and memory.total,
        "reserved_bytes": reserved,
        "used_bytes": memory and memory.used,
        "free_bytes": memory and memory.free,
    }


def _memory(reader: Reader, clock: int | None) -> CardMemory:
    bus = reader.ask("nvmlDeviceGetMemoryBusWidth")
    return {
        **read_memory(reader, reader.card.handle),
        "max_clock_mhz": clock,
        "bus_width_bits": bus,
        "bandwidth_gb_s": ceilings.bandwidth_gb_s(clock, bus),
    }


def _compute(reader: Reader, capability: str | None, brand: str | None, clock: int | None) -> Compute:
    cores = reader.ask("nvmlDeviceGetNumGpuCores")
    sm = ceilings.sm_count(capability or "", cores)
    return {
        "cores": cores,
        "sm_count": sm,
        "max_clock_mhz": clock,
        "peak_tflops": {
            dtype: ceilings.peak_tflops(capability or "", brand or "", sm, clock, dtype, reader.card.name)
            for dtype in ceilings.DTYPES
        },
    }


def _pcie(reader: Reader) -> dict[str, int | None]:
    return {
        "gpu_max_generation": reader.ask("nvmlDeviceGetGpuMaxPcieLinkGeneration"),
        "max_generation": reader.ask("nvmlDeviceGetMaxPcieLinkGeneration"),
        "max_width": reader.ask("nvmlDeviceGetMaxPcieLinkWidth"),
        "current_generation": reader.ask("nvmlDeviceGetCurrPcieLinkGeneration"),
        "current_width": reader.ask("nvmlDeviceGetCurrPcieLinkWidth"),
    }


def _nvlink(reader: Reader) -> Nvlink | None:
    """Read the NVLinks; None for a card without them."""
    count = reader.field(LINK_COUNT)
    if not count:
        return None
    states = [flag(reader.ask("nvmlDeviceGetNvLinkState", link)) for link in range(count)]
    speeds = reader.fields([(LINK_SPEED, link) for link in range(count)])
    links: list[Link] = []
    for link, (active, speed) in enumerate(zip(states, speeds)):
        remote = reader.ask("nvmlDeviceGetNvLinkRemotePciInfo", link) if active else None
        target = reader.ask("nvmlDeviceGetNvLinkRemoteDeviceType", link) if active else None
        links.append(
            {
                "link": link,
                "active": active,
                "speed_gb_s": scaled(speed, 1000) if active else None,
                "remote": named(target, LINK_TARGETS),
                "remote_pci_address": (remote and pci_address(remote.busId)) or None,
            }
        )
    return {
        "count": count,
        "active": states.count(True),
        # All links of a card have the same version.
        "version": reader.ask("nvmlDeviceGetNvLinkVersion", states.index(True)) if True in states else None,
        "links": links,
    }


def _modes(reader: Reader) -> Modes:
    ecc = reader.ask("nvmlDeviceGetEccMode")
    mig = reader.ask("nvmlDeviceGetMigMode")
    compute = reader.ask("nvmlDeviceGetComputeMode")
    return {
        "persistence": flag(reader.ask("nvmlDeviceGetPersistenceMode")),
        "compute_mode": named(compute, COMPUTE_MODES),
        "ecc": {
            "current": bool(ecc[0]),
            "pending": bool(ecc[1]),
            "default": flag(reader.ask("nvmlDeviceGetDefaultEccMode")),
        }
        if ecc
        else None,
        "mig": {
            "current": bool(mig[0]),
            "pending": bool(mig[1]),
            "resetless": flag(reader.field(RESETLESS_MIG)),
        }
        if mig
        else None,
        "accounting": flag(reader.ask("nvmlDeviceGetAccountingMode")),
        "display_active": flag(reader.ask("nvmlDeviceGetDisplayActive")),
    }


def _mig_devices(reader: Reader) -> list[MigDevice]:
    found = []
    for index in range(reader.ask("nvmlDeviceGetMaxMigDeviceCount") or 0):
        # The index of a removed instance stays free: there may be gaps.
        handle = reader.ask("nvmlDeviceGetMigDeviceHandleByIndex", index)
        if handle is not None:
            found.append(_mig_device(reader, index, handle))
    return found


def _mig_device(reader: Reader, index: int, handle: t.Any) -> MigDevice:
    name = reader.ask_of(handle, "nvmlDeviceGetName")
    profile = name and _PROFILE.search(name)
    number = reader.ask_of(handle, "nvmlDeviceGetGpuInstanceId")
    instance = None if number is None else reader.ask("nvmlDeviceGetGpuInstanceById", number)
    info = reader.ask_of(instance, "nvmlGpuInstanceGetInfo")
    attributes = reader.ask_of(handle, "nvmlDeviceGetAttributes")
    return {
        "index": index,
        "uuid": reader.ask_of(handle, "nvmlDeviceGetUUID"),
        "profile": profile.group(1) if profile else None,
        "gpu_instance_id": number,
        "compute_instance_id": reader.ask_of(handle, "nvmlDeviceGetComputeInstanceId"),
        "placement": info and {"start": info.placement.start, "size": info.placement.size},
        "sm_count": attributes and attributes.multiprocessorCount,
        "memory": read_memory(reader, handle),
    }


def _power(reader: Reader) -> dict[str, float | None]:
    constraints = reader.ask("nvmlDeviceGetPowerManagementLimitConstraints")
    return {
        "draw_w": scaled(reader.ask("nvmlDeviceGetPowerUsage"), 1000),
        "average_w": scaled(reader.field(POWER_AVERAGE), 1000),
        "limit_w": scaled(reader.ask("nvmlDeviceGetPowerManagementLimit"), 1000),
        "enforced_limit_w": scaled(reader.ask("nvmlDeviceGetEnforcedPowerLimit"), 1000),
        "default_limit_w": scaled(reader.ask("nvmlDeviceGetPowerManagementDefaultLimit"), 1000),
        "min_limit_w": scaled(first(constraints, 0), 1000),
        "max_limit_w": scaled(first(constraints, 1), 1000),
    }


def _clocks(reader: Reader, max_mhz: dict[str, int | None], locked: dict[str, list[int] | None] | None) -> Clocks:
    reasons = reader.ask("nvmlDeviceGetCurrentClocksEventReasons")
    if reasons is None:
        # Its name before driver 535.
        reasons = reader.ask("nvmlDeviceGetCurrentClocksThrottleReasons")
    performance = reader.ask("nvmlDeviceGetPerformanceState")
    return {
        "current_mhz": {name: reader.ask("nvmlDeviceGetClockInfo", number) for name, number in CLOCKS.items()},
        "max_mhz": max_mhz,
        # 32 stands for unknown.
        "performance_state": None if performance in (None, 32) else f"P{performance}",
        "event_reasons": bits(reasons, EVENT_REASONS),
        "locked_mhz": locked,
    }


def _locked(tree: Tree, uuid: str) -> dict[str, list[int] | None] | None:
    """Return the clocks that gpu_mode has locked, from its record. gpu_mode refuses a damaged record; here it counts as none."""
    try:
        locked = record.read_locked(tree).get(uuid, {})
    except Refusal:
        locked = {}
    return {name: locked.get(f"locked_{name}_clocks") for name in ("gpu", "memory")} if locked else None


def _temperature(reader: Reader) -> Temperature:
    return {
        "gpu_c": reader.ask("nvmlDeviceGetTemperature", 0),
        "memory_c": reader.field(MEMORY_TEMPERATURE),
        "margin_c": reader.ask("nvmlDeviceGetMarginTemperature"),
        "thresholds_c": {
            name: reader.ask("nvmlDeviceGetTemperatureThreshold", number) for name, number in THRESHOLDS.items()
        },
        "margin_limits_c": {name: reader.field(number) for name, number in T_LIMITS.items()},
    }


def _fans(reader: Reader) -> list[int | None] | None:
    """Read the speed of each fan; None for a card without fans of its own."""
    count = reader.ask("nvmlDeviceGetNumFans")
    return [reader.ask("nvmlDeviceGetFanSpeed_v2", fan) for fan in range(count)] if count else None


def _utilization(reader: Reader) -> dict[str, int | None]:
    rates = reader.ask("nvmlDeviceGetUtilizationRates")
    return {"gpu_percent": rates and rates.gpu, "memory_percent": rates and rates.memory}


def sharing(modes: Modes, listed: t.Sequence[processes.Process] | None, mig_devices: t.Sequence[MigDevice]) -> Sharing:
    """Return how programs share the GPU now, from its modes and processes."""
    servers = sorted(row["pid"] for row in listed or [] if row["kind"] == processes.SERVER)
    mode: str | None = {
        "default": "mps" if servers else "time_slicing",
        "exclusive_process": "mps" if servers else "exclusive",
        "exclusive_thread": "exclusive",
        "prohibited": "prohibited",
    }.get(modes["compute_mode"] or "")
    if modes["mig"] and modes["mig"]["current"]:
        mode = "mig"
    return {"mode": mode, "mps_servers": servers, "slices": len(mig_devices)}

"""Record all answers of a real NVML that the fake one has to give: JSON, with which tests compare the fake. It changes nothing.

    PYTHONPATH=<folder with pynvml> python3 record_nvml.py > h200.json       # on a machine with a GPU; --gpu 1 for another than the first

It needs NVIDIA's binding (nvidia-ml-py) and nothing else of this repository: copy this file to the machine. A recording goes to
tests/unit/fixtures/nvml/<model>.json. Serial numbers, UUIDs and other names of one machine are replaced. Of processes it keeps the number.
Each query has the result by NVML's name, and the value when it is SUCCESS. The output of nvidia-smi is in the same file.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from ctypes import c_char, c_int, c_longlong, c_ubyte, c_uint, c_ulong, c_ulonglong
from functools import partial
from typing import Any

import pynvml as nvml

Query = tuple[str, Callable[[], Any]]

# Functions whose answers name one machine or card, and what a recording has instead.
NAMES_ONE = {
    "nvmlDeviceGetSerial": "0000000000000",
    "nvmlDeviceGetUUID": "GPU-00000000-0000-0000-0000-000000000000",
    "nvmlDeviceGetPdi": 0,
}
NAMES_ONE_FIELDS = {"clusterUuid", "ibGuid", "chassisSerialNumber", "rackGuid"}

# Functions that answer with one number: (handle, unsigned int *).
NUMBERS = """
AccountingBufferSize AccountingMode AdaptiveClockInfoStatus Architecture BoardId Brand BusType ComputeMode
CurrPcieLinkGeneration CurrPcieLinkWidth DefaultEccMode DisplayActive DisplayMode EnforcedPowerLimit FanSpeed
GpuMaxPcieLinkGeneration InforomConfigurationChecksum IrqNum MaxMigDeviceCount MaxPcieLinkGeneration MaxPcieLinkWidth MemoryBusWidth
MinorNumber ModuleId MultiGpuBoard NumFans NumGpuCores NumaNodeId PcieLinkMaxSpeed PcieReplayCounter PcieSpeed PerformanceState
PersistenceMode PowerManagementDefaultLimit PowerManagementLimit PowerManagementMode PowerSource PowerState PowerUsage
RetiredPagesPendingStatus VirtualizationMode Index GpuInstanceId ComputeInstanceId UnrepairableMemoryFlag_v1
"""
# (handle, unsigned long long *)
NUMBERS64 = """
CurrentClocksEventReasons CurrentClocksThrottleReasons SupportedClocksEventReasons SupportedClocksThrottleReasons
SupportedEventTypes TotalEnergyConsumption
"""
# (handle, unsigned int *, unsigned int *)
PAIRS = """
CudaComputeCapability EccMode MigMode GpuOperationMode GspFirmwareMode MinMaxFanSpeed PowerManagementLimitConstraints
EncoderUtilization DecoderUtilization JpgUtilization OfaUtilization AutoBoostedClocksEnabled DriverModel
"""
# (handle, char *, unsigned int length)
TEXTS = "BoardPartNumber InforomImageVersion Name Serial UUID VbiosVersion"
# (handle, unsigned int which, unsigned int *), and how many there are
NUMBERS_OF = {
    "APIRestriction": 2,
    "ApplicationsClock": 4,
    "ClockInfo": 4,
    "DefaultApplicationsClock": 4,
    "FanControlPolicy_v2": 2,
    "FanSpeed_v2": 2,
    "MaxClockInfo": 4,
    "MaxCustomerBoostClock": 4,
    "PcieThroughput": 2,
    "TargetFanSpeed": 2,
    "Temperature": 1,
    "TemperatureThreshold": 8,
}
LINK_NUMBERS = ("State", "Version", "RemoteDeviceType")
FIELDS = range(1, 304)
LINKS = 18  # most that a card has (NVML_NVLINK_MAX_LINKS is 36, for other devices)
GPU_INSTANCE_PROFILES = range(0x13)


class Pci(ctypes.Structure):
    _fields_ = [
        ("busIdLegacy", c_char * 16),
        *[(name, c_uint) for name in ("domain", "bus", "device", "pciDeviceId", "pciSubSystemId")],
        ("busId", c_char * 32),
    ]


def versioned(version: int, *fields: tuple[str, Any]) -> Callable[[], ctypes.Structure]:
    """Return a maker of structures that begin with their size and version (NVML_STRUCT_VERSION)."""
    kind = type("Versioned", (ctypes.Structure,), {"_fields_": [("version", c_uint), *fields]})
    return lambda: kind(version=ctypes.sizeof(kind) | version << 24)


def plain(*fields: tuple[str, Any]) -> type[ctypes.Structure]:
    return type("Plain", (ctypes.Structure,), {"_fields_": list(fields)})


def numbers(names: str, kind: Any = c_uint) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


MEMORY = plain(*numbers("total free used", c_ulonglong))
MEMORY2 = versioned(2, *numbers("total reserved free used", c_ulonglong))
RATES = plain(*numbers("gpu memory"))
HISTOGRAM = plain(*numbers("max high partial low none"))
REMAPPED2 = plain(*numbers("corrActive corrInactive uncActive uncInactive pending failure"))
ENGINES = "multiprocessors copyEngines decoders encoders jpegs ofas"
PROFILE = plain(*numbers(f"id p2p slices instances {ENGINES}"), ("memoryMB", c_ulonglong))
PROFILE2 = versioned(
    2, *numbers(f"id p2p slices instances {ENGINES}"), ("memoryMB", c_ulonglong), ("name", c_char * 96)
)
PROFILE3 = versioned(
    3,
    *numbers(f"id slices instances {ENGINES}"),
    ("memoryMB", c_ulonglong),
    ("name", c_char * 96),
    ("capabilities", c_uint),
)
ATTRIBUTES = plain(*numbers(f"{ENGINES} gpuSlices computeSlices"), ("memoryMB", c_ulonglong))
SRAM = versioned(
    1,
    *numbers(
        "aggregateParity aggregateSecDed aggregateCorrected volatileParity volatileSecDed volatileCorrected",
        c_ulonglong,
    ),
    *numbers("l2 sm pcie mcu other", c_ulonglong),
    ("exceeded", c_uint),
)
FABRIC = [("clusterUuid", c_ubyte * 16), *numbers("status cliqueId"), ("state", c_ubyte), ("healthMask", c_uint)]
PROFILES: dict[str, Callable[[], Any]] = {
    "nvmlDeviceGetGpuInstanceProfileInfo({})": PROFILE,
    "nvmlDeviceGetGpuInstanceProfileInfoV({})": PROFILE2,
    "nvmlDeviceGetGpuInstanceProfileInfoV({}, 3)": PROFILE3,
}
PLACEMENT = plain(*numbers("start size"))
PROCESS = plain(("pid", c_uint), ("memory", c_ulonglong))
PROCESS2 = plain(("pid", c_uint), ("memory", c_ulonglong), ("gi", c_uint), ("ci", c_uint))
BRANCH = versioned(1, ("branch", c_char * 80))
FIELD = plain(
    *numbers("id scope"),
    *numbers("time latency", c_longlong),
    ("type", c_uint),
    ("result", c_int),
    ("value", c_ulonglong),
)
STRUCTURES: dict[str, Callable[[], Any]] = {
    "BAR1MemoryInfo": MEMORY,
    "MemoryInfo": MEMORY,
    "MemoryInfo_v2": MEMORY2,
    "PciInfo_v3": Pci,
    "PciInfoExt": versioned(
        1,
        *numbers("domain bus device pciDeviceId pciSubSystemId baseClass subClass"),
        ("busId", c_char * 32),
    ),
    "UtilizationRates": RATES,
    "RowRemapperHistogram": HISTOGRAM,
    "RemappedRows_v2": REMAPPED2,
    "RepairStatus": versioned(1, *numbers("channel tpc")),
    "SramEccErrorStatus": SRAM,
    "Attributes_v2": ATTRIBUTES,
    "GpuFabricInfoV": versioned(2, *FABRIC),
    "TemperatureV": versioned(1, ("sensor", c_uint), ("value", c_int)),
    "MarginTemperature": versioned(1, ("value", c_int)),
    "AddressingMode": versioned(1, ("value", c_uint)),
    "Capabilities": versioned(1, ("value", c_uint)),
    "C2cModeInfoV": versioned(1, ("value", c_uint)),
    "Pdi": versioned(1, ("value", c_ulonglong)),
    "FanSpeedRPM": versioned(1, ("fan", c_uint), ("speed", c_uint)),
    "CoolerInfo": versioned(1, *numbers("index control target")),
    "PerformanceModes": versioned(1, ("text", c_char * 2048)),
    "CurrentClockFreqs": versioned(1, ("text", c_char * 2048)),
    "DynamicPstatesInfo": plain(("flags", c_uint), ("utilization", c_uint * 32)),
    "PlatformInfo": versioned(
        2,
        ("ibGuid", c_ubyte * 16),
        ("chassisSerialNumber", c_ubyte * 16),
        *numbers("slotNumber trayIndex hostId peerType moduleId", c_ubyte),
    ),
}
# Structures that are passed with version 0, to record the error.
WRONG_VERSIONS = ("MemoryInfo_v2", "RepairStatus", "SramEccErrorStatus", "TemperatureV", "MarginTemperature")


# `{19: "IN_USE"}` for NVML_ERROR_IN_USE.
RESULTS = {getattr(nvml, name): name[11:] for name in dir(nvml) if name.startswith("NVML_ERROR_")}


def result_name(code: int) -> str:
    return RESULTS.get(code, str(code))


class Refused(Exception):
    pass


def call(function: str, *arguments: Any) -> None:
    """Call a function of the library itself: the binding's wrappers hide versions."""
    try:
        pointer = nvml._nvmlGetFunctionPointer(function)
    except nvml.NVMLError as error:
        raise Refused(result_name(error.value)) from None
    result = pointer(*arguments)
    if result != nvml.NVML_SUCCESS:
        raise Refused(result_name(result))


def simple(value: Any) -> Any:
    """Return a ctypes value as JSON has it."""
    if isinstance(value, ctypes.Structure):
        kept = [name for name, *_type in value._fields_ if name != "version"]
        return {name: "replaced" if name in NAMES_ONE_FIELDS else simple(getattr(value, name)) for name in kept}
    if isinstance(value, ctypes.Array):
        return [simple(item) for item in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value.value if hasattr(value, "value") else value


def answer(function: str, before: Sequence[Any], *out: Any, after: Sequence[Any] = ()) -> Any:
    """Call a function some parameters of which are pointers to what it answers."""
    call(function, *before, *(ctypes.byref(item) for item in out), *after)
    values = [simple(item) for item in out]
    return values[0] if len(values) == 1 else values


def text(function: str, *before: Any, size: int = 96) -> str:
    buffer = ctypes.create_string_buffer(size)
    call(function, *before, buffer, c_uint(size))
    return buffer.value.decode()


def counted(function: str, *before: Any, kind: Any = c_uint) -> list[Any]:
    """Read a list that the library writes into a buffer, with its length."""
    found, room = c_uint(1024), (kind * 1024)()
    call(function, *before, ctypes.byref(found), room)
    return [simple(room[index]) for index in range(found.value)]


# --- Queries. Each one runs before the next one is named ---


def number_queries(gpu: Any, function: str, *counts: int, kind: Any = c_uint) -> Iterator[Query]:
    """Yield queries of a function for each number below a count, and for the count itself, which has to fail."""
    for which in itertools.product(*(range(count + 1) for count in counts)):
        before = (gpu, *(c_uint(index) for index in which))
        yield f"{function}({', '.join(map(str, which))})", partial(answer, function, before, kind())


def device_queries(gpu: Any) -> Iterator[Query]:
    for name in NUMBERS.split():
        yield f"nvmlDeviceGet{name}", partial(answer, f"nvmlDeviceGet{name}", (gpu,), c_uint())
    for name in NUMBERS64.split():
        yield f"nvmlDeviceGet{name}", partial(answer, f"nvmlDeviceGet{name}", (gpu,), c_ulonglong())
    for name in PAIRS.split():
        yield f"nvmlDeviceGet{name}", partial(answer, f"nvmlDeviceGet{name}", (gpu,), c_uint(), c_uint())
    for name in TEXTS.split():
        yield f"nvmlDeviceGet{name}", partial(text, f"nvmlDeviceGet{name}", gpu)
    for name, count in NUMBERS_OF.items():
        yield from number_queries(gpu, f"nvmlDeviceGet{name}", count)
    for name, make in STRUCTURES.items():
        yield f"nvmlDeviceGet{name}", partial(answer, f"nvmlDeviceGet{name}", (gpu,), make())
    for name in WRONG_VERSIONS:
        structure = STRUCTURES[name]()
        structure.version = 0
        yield f"nvmlDeviceGet{name}(version 0)", partial(answer, f"nvmlDeviceGet{name}", (gpu,), structure)
    yield "nvmlDeviceGetGspFirmwareVersion", partial(gsp_version, gpu)
    yield "nvmlDeviceIsMigDeviceHandle", partial(answer, "nvmlDeviceIsMigDeviceHandle", (gpu,), c_uint())
    for which in range(4):
        yield (
            f"nvmlDeviceGetInforomVersion({which})",
            partial(text, "nvmlDeviceGetInforomVersion", gpu, c_uint(which), size=16),
        )
    yield from affinity_queries(gpu)
    yield from clock_queries(gpu)
    yield from health_queries(gpu)
    yield from process_queries(gpu)
    yield from link_queries(gpu)
    yield from mig_queries(gpu)
    for number in FIELDS:
        yield f"field {number}", partial(field, gpu, number)


def gsp_version(gpu: Any) -> str:
    buffer = ctypes.create_string_buffer(64)
    call("nvmlDeviceGetGspFirmwareVersion", gpu, buffer)
    return buffer.value.decode()


def affinity_queries(gpu: Any) -> Iterator[Query]:
    yield "nvmlDeviceGetCpuAffinity", partial(affinity, gpu, "nvmlDeviceGetCpuAffinity")
    for scope in range(2):
        for function in ("nvmlDeviceGetCpuAffinityWithinScope", "nvmlDeviceGetMemoryAffinity"):
            yield f"{function}({scope})", partial(affinity, gpu, function, c_uint(scope))


def affinity(gpu: Any, function: str, *scope: c_uint) -> list[int]:
    masks = (c_ulong * 16)()
    call(function, gpu, c_uint(16), masks, *scope)
    return list(masks)


def clock_queries(gpu: Any) -> Iterator[Query]:
    yield from number_queries(gpu, "nvmlDeviceGetClock", 4, 4)
    yield "nvmlDeviceGetSupportedMemoryClocks", partial(counted, "nvmlDeviceGetSupportedMemoryClocks", gpu)
    yield "nvmlDeviceGetSupportedGraphicsClocks", partial(graphics_clocks, gpu)
    for clock in (0, 1):  # which no memory has
        yield (
            f"nvmlDeviceGetSupportedGraphicsClocks({clock})",
            partial(counted, "nvmlDeviceGetSupportedGraphicsClocks", gpu, c_uint(clock)),
        )


def graphics_clocks(gpu: Any) -> dict[str, list[int]]:
    memory = counted("nvmlDeviceGetSupportedMemoryClocks", gpu)
    return {str(clock): counted("nvmlDeviceGetSupportedGraphicsClocks", gpu, c_uint(clock)) for clock in memory}


def health_queries(gpu: Any) -> Iterator[Query]:
    yield (
        "nvmlDeviceGetRemappedRows",
        partial(answer, "nvmlDeviceGetRemappedRows", (gpu,), *(c_uint() for _number in range(4))),
    )
    for cause in range(3):
        yield (
            f"nvmlDeviceGetRetiredPages({cause})",
            partial(counted, "nvmlDeviceGetRetiredPages", gpu, c_uint(cause), kind=c_ulonglong),
        )
        yield f"nvmlDeviceGetRetiredPages_v2({cause})", partial(retired_pages, gpu, cause)
    yield from number_queries(gpu, "nvmlDeviceGetTotalEccErrors", 2, 2, kind=c_ulonglong)
    yield from number_queries(gpu, "nvmlDeviceGetMemoryErrorCounter", 2, 2, 8, kind=c_ulonglong)


def retired_pages(gpu: Any, cause: int) -> list[int]:
    found, pages, times = c_uint(1024), (c_ulonglong * 1024)(), (c_ulonglong * 1024)()
    call("nvmlDeviceGetRetiredPages_v2", gpu, c_uint(cause), ctypes.byref(found), pages, times)
    return list(pages[: found.value])


def process_queries(gpu: Any) -> Iterator[Query]:
    for kind in ("Compute", "Graphics", "MPSCompute"):
        for version, layout in (("", PROCESS), ("_v2", PROCESS2), ("_v3", PROCESS2)):
            yield (
                f"nvmlDeviceGet{kind}RunningProcesses{version}",
                partial(count_processes, gpu, kind + "RunningProcesses" + version, layout),
            )


def count_processes(gpu: Any, name: str, layout: Any) -> int:
    return len(counted(f"nvmlDeviceGet{name}", gpu, kind=layout))


def link_queries(gpu: Any) -> Iterator[Query]:
    for name in LINK_NUMBERS:
        yield from number_queries(gpu, f"nvmlDeviceGetNvLink{name}", LINKS)
    yield from number_queries(gpu, "nvmlDeviceGetNvLinkCapability", 0, 6)
    yield from number_queries(gpu, "nvmlDeviceGetNvLinkErrorCounter", 0, 5, kind=c_ulonglong)
    for link in (0, LINKS):
        yield (
            f"nvmlDeviceGetNvLinkRemotePciInfo_v2({link})",
            partial(answer, "nvmlDeviceGetNvLinkRemotePciInfo_v2", (gpu, c_uint(link)), Pci()),
        )


def mig_queries(gpu: Any) -> Iterator[Query]:
    for profile in GPU_INSTANCE_PROFILES:
        for name, make in PROFILES.items():
            yield name.format(profile), partial(answer, name.split("(", maxsplit=1)[0], (gpu, c_uint(profile)), make())
        for name, query in QUERIES_BY_ID.items():
            yield f"{name}({profile})", partial(by_id, gpu, profile, query)
    for name, query in QUERIES_BY_ID.items():
        yield f"{name}(no such id)", partial(query, gpu, c_uint(999))
    yield "nvmlDeviceGetGpuInstanceById(0)", partial(handle, "nvmlDeviceGetGpuInstanceById", gpu, c_uint(0))
    for index in (0, 99):
        yield (
            f"nvmlDeviceGetMigDeviceHandleByIndex({index})",
            partial(handle, "nvmlDeviceGetMigDeviceHandleByIndex", gpu, c_uint(index)),
        )


def handle(function: str, *before: Any) -> None:
    """Check only whether there is a handle."""
    call(function, *before, ctypes.byref(ctypes.c_void_p()))


def by_id(gpu: Any, profile: int, query: Callable[[Any, c_uint], Any]) -> Any:
    """Run a query by the id of a profile, which differs from the profile's number."""
    info = PROFILE()
    call("nvmlDeviceGetGpuInstanceProfileInfo", gpu, c_uint(profile), ctypes.byref(info))
    return query(gpu, c_uint(info.id))


def profile_by_id(gpu: Any, number: c_uint) -> Any:
    return answer("nvmlDeviceGetGpuInstanceProfileInfoByIdV", (gpu, number), PROFILE2())


def remaining_capacity(gpu: Any, number: c_uint) -> Any:
    return answer("nvmlDeviceGetGpuInstanceRemainingCapacity", (gpu, number), c_uint())


def possible_placements(gpu: Any, number: c_uint) -> list[list[int]]:
    found, room = c_uint(32), (PLACEMENT * 32)()
    call("nvmlDeviceGetGpuInstancePossiblePlacements_v2", gpu, number, room, ctypes.byref(found))
    return [[room[index].start, room[index].size] for index in range(found.value)]


def count_instances(gpu: Any, number: c_uint) -> int:
    found = c_uint(0)
    call("nvmlDeviceGetGpuInstances", gpu, number, (ctypes.c_void_p * 32)(), ctypes.byref(found))
    return found.value


QUERIES_BY_ID: dict[str, Callable[[Any, c_uint], Any]] = {
    "nvmlDeviceGetGpuInstanceProfileInfoByIdV": profile_by_id,
    "nvmlDeviceGetGpuInstanceRemainingCapacity": remaining_capacity,
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2": possible_placements,
    "nvmlDeviceGetGpuInstances": count_instances,
}


def field(gpu: Any, number: int) -> dict[str, Any]:
    value_ = FIELD(id=number)
    call("nvmlDeviceGetFieldValues", gpu, c_int(1), ctypes.byref(value_))
    if value_.result != nvml.NVML_SUCCESS:
        raise Refused(result_name(value_.result))
    return {"type": value_.type, "value": value_.value}


def system_queries() -> Iterator[Query]:
    for name in ("DriverVersion", "NVMLVersion"):
        yield f"nvmlSystemGet{name}", partial(text, f"nvmlSystemGet{name}")
    for name in ("CudaDriverVersion", "CudaDriverVersion_v2"):
        yield f"nvmlSystemGet{name}", partial(answer, f"nvmlSystemGet{name}", (), c_int())
    yield "nvmlSystemGetDriverBranch", partial(answer, "nvmlSystemGetDriverBranch", (), BRANCH(), after=(c_uint(80),))
    yield "nvmlDeviceGetHandleByIndex(99)", partial(handle, "nvmlDeviceGetHandleByIndex_v2", c_uint(99))
    yield "nvmlDeviceGetHandleByUUID(no such)", partial(handle, "nvmlDeviceGetHandleByUUID", b"GPU-1")
    yield "nvmlDeviceGetHandleBySerial(no such)", partial(handle, "nvmlDeviceGetHandleBySerial", b"1")
    for form in (b"0000:fe:1f.0", b"nonsense"):
        yield (
            f"nvmlDeviceGetHandleByPciBusId({form.decode()})",
            partial(handle, "nvmlDeviceGetHandleByPciBusId_v2", form),
        )


def address_queries(gpu: Any) -> Iterator[Query]:
    """Yield the forms of a PCI address that a machine may accept."""
    own = Pci()
    call("nvmlDeviceGetPciInfo_v3", gpu, ctypes.byref(own))
    forms = {
        "eight digits": own.busId,
        "four digits": own.busIdLegacy,
        "lower case": own.busIdLegacy.lower(),
        "no domain": own.busIdLegacy.split(b":", 1)[1],
        "no function": own.busIdLegacy.split(b".")[0],
    }
    for name, form in forms.items():
        yield f"nvmlDeviceGetHandleByPciBusId({name})", partial(handle, "nvmlDeviceGetHandleByPciBusId_v2", form)


def pair_queries(gpu: Any, other: Any) -> Iterator[Query]:
    yield (
        "nvmlDeviceGetTopologyCommonAncestor",
        partial(answer, "nvmlDeviceGetTopologyCommonAncestor", (gpu, other), c_uint()),
    )
    yield "nvmlDeviceOnSameBoard", partial(answer, "nvmlDeviceOnSameBoard", (gpu, other), c_int())
    for which in range(6):
        yield (
            f"nvmlDeviceGetP2PStatus({which})",
            partial(answer, "nvmlDeviceGetP2PStatus", (gpu, other, c_uint(which)), c_uint()),
        )


# --- nvidia-smi, where there is one ---

SMI_COMMANDS = ("-L", "-q -x -i {}", "compute-policy -l", "mig -lgip")
SMI_NAMES_ONE = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "00000000-0000-0000-0000-000000000000"),
    (r"(?s)<process_info>.*?</process_info>\s*", ""),
    (r"<(serial|board_id|timestamp|chassis_serial_number|gpu_fabric_guid|pdi|clusterUuid)>(?!N/A)[^<]*<", r"<\1>0<"),
)


def nvidia_smi(index: int) -> dict[str, dict[str, Any]]:
    program = shutil.which("nvidia-smi")
    if not program:
        return {}
    printed = {}
    for arguments in SMI_COMMANDS:
        command = [program, *arguments.format(index).split()]
        ended = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        output = ended.stdout
        for pattern, replacement in SMI_NAMES_ONE:
            output = re.sub(pattern, replacement, output)
        printed[arguments] = {"rc": ended.returncode, "output": output}
    return printed


def ask(queries: Iterator[Query]) -> dict[str, dict[str, Any]]:
    answers: dict[str, dict[str, Any]] = {}
    for name, query in queries:
        try:
            answers[name] = {"result": "SUCCESS", "value": NAMES_ONE.get(name, query())}
        except Refused as refused:
            answers[name] = {"result": str(refused)}
        except nvml.NVMLError as error:
            answers[name] = {"result": result_name(error.value)}
    return answers


def record(index: int = 0) -> dict[str, Any]:
    """Record all answers of one GPU. Answers about two GPUs are of this GPU and the next one, or of this GPU and itself."""
    nvml.nvmlInit()
    try:
        count = nvml.nvmlDeviceGetCount()
        gpu = nvml.nvmlDeviceGetHandleByIndex(index)
        other = nvml.nvmlDeviceGetHandleByIndex((index + 1) % count)
        return {
            "binding": getattr(nvml, "__version__", None),
            "gpus": count,
            "system": ask(system_queries()),
            "device": ask(device_queries(gpu)) | ask(address_queries(gpu)),
            "pair": ask(pair_queries(gpu, other)),
            "nvidia-smi": nvidia_smi(index),
        }
    finally:
        nvml.nvmlShutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description="Print what NVML answers about a GPU, as JSON. Changes nothing.")
    parser.add_argument("--gpu", type=int, default=0, help="index of the GPU")
    json.dump(record(parser.parse_args().gpu), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()

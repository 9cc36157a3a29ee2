"""Everything that the imitated NVML answers, asked of the real one: JSON that the imitation is held to. Reads, and changes nothing.

    PYTHONPATH=<folder with pynvml> python3 record_nvml.py > h200.json       # on a machine with a GPU; --gpu 1 for another than the first

Needs NVIDIA's binding (nvidia-ml-py) and nothing else of this repository: copy this file to the machine. A recording goes to
tests/unit/fixtures/nvml/<model>.json. Serial numbers, UUIDs and what else names one machine are replaced, of processes only their number is
kept. Each query has the result by NVML's name, and the value when it is SUCCESS.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from ctypes import c_char, c_int, c_longlong, c_ubyte, c_uint, c_ulong, c_ulonglong
from typing import Any

import pynvml as nvml

Query = tuple[str, Callable[[], Any]]

# What names one machine or card, in place of which a recording has the second.
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
    """Makes structures that begin with their size and version (NVML_STRUCT_VERSION)."""
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
# A structure that was called with no version, or with one from the future: what the library says of it.
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
    """A ctypes value as JSON has it."""
    if isinstance(value, ctypes.Structure):
        kept = [name for name, *_ in value._fields_ if name != "version"]
        return {name: "replaced" if name in NAMES_ONE_FIELDS else simple(getattr(value, name)) for name in kept}
    if isinstance(value, ctypes.Array):
        return [simple(one) for one in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value.value if hasattr(value, "value") else value


def answer(function: str, before: Sequence[Any], *out: Any) -> Any:
    """Call a function whose last parameters are pointers to what it answers."""
    call(function, *before, *(ctypes.byref(one) for one in out))
    values = [simple(one) for one in out]
    return values[0] if len(values) == 1 else values


def text(function: str, *before: Any, size: int = 96) -> str:
    buffer = ctypes.create_string_buffer(size)
    call(function, *before, buffer, c_uint(size))
    return buffer.value.decode()


def counted(function: str, *before: Any, kind: Any = c_uint, extra: int = 0, most: int = 1024) -> list[Any]:
    """A list for which the library takes room and tells how much of it is used."""
    found, room = c_uint(most), (kind * most)()
    call(function, *before, ctypes.byref(found), room, *[None] * extra)
    return [simple(room[index]) for index in range(found.value)]


# --- What is asked ---


def device_queries(gpu: Any) -> Iterator[Query]:
    for name in NUMBERS.split():
        yield f"nvmlDeviceGet{name}", lambda name=name: answer(f"nvmlDeviceGet{name}", (gpu,), c_uint())
    for name in NUMBERS64.split():
        yield f"nvmlDeviceGet{name}", lambda name=name: answer(f"nvmlDeviceGet{name}", (gpu,), c_ulonglong())
    for name in PAIRS.split():
        yield f"nvmlDeviceGet{name}", lambda name=name: answer(f"nvmlDeviceGet{name}", (gpu,), c_uint(), c_uint())
    for name in TEXTS.split():
        yield f"nvmlDeviceGet{name}", lambda name=name: text(f"nvmlDeviceGet{name}", gpu)
    for name, count in NUMBERS_OF.items():
        for which in range(count + 1):  # one more than there are
            yield (
                f"nvmlDeviceGet{name}({which})",
                lambda name=name, which=which: answer(f"nvmlDeviceGet{name}", (gpu, c_uint(which)), c_uint()),
            )
    for name, make in STRUCTURES.items():
        yield f"nvmlDeviceGet{name}", lambda name=name, make=make: answer(f"nvmlDeviceGet{name}", (gpu,), make())
    for name in WRONG_VERSIONS:
        yield (
            f"nvmlDeviceGet{name}(version 0)",
            lambda name=name: answer(f"nvmlDeviceGet{name}", (gpu,), unversioned(name)),
        )
    yield "nvmlDeviceGetFanSpeed(no fan)", lambda: answer("nvmlDeviceGetFanSpeed_v2", (gpu, c_uint(99)), c_uint())
    yield "nvmlDeviceGetGspFirmwareVersion", lambda: gsp_version(gpu)
    yield "nvmlDeviceIsMigDeviceHandle", lambda: answer("nvmlDeviceIsMigDeviceHandle", (gpu,), c_uint())
    for which in range(4):
        yield (
            f"nvmlDeviceGetInforomVersion({which})",
            lambda which=which: text("nvmlDeviceGetInforomVersion", gpu, c_uint(which), size=16),
        )
    yield from affinity_queries(gpu)
    yield from clock_queries(gpu)
    yield from health_queries(gpu)
    yield from process_queries(gpu)
    yield from link_queries(gpu)
    yield from mig_queries(gpu)
    for number in FIELDS:
        yield f"field {number}", lambda number=number: field(gpu, number)


def unversioned(name: str) -> Any:
    made = STRUCTURES[name]()
    made.version = 0
    return made


def gsp_version(gpu: Any) -> str:
    buffer = ctypes.create_string_buffer(64)
    call("nvmlDeviceGetGspFirmwareVersion", gpu, buffer)
    return buffer.value.decode()


def affinity_queries(gpu: Any) -> Iterator[Query]:
    def ask(function: str, *scope: c_uint) -> list[int]:
        words = (c_ulong * 16)()
        call(function, gpu, c_uint(16), words, *scope)
        return list(words)

    yield "nvmlDeviceGetCpuAffinity", lambda: ask("nvmlDeviceGetCpuAffinity")
    for scope in range(2):
        for name in ("CpuAffinityWithinScope", "MemoryAffinity"):
            function = f"nvmlDeviceGet{name}"
            yield f"{function}({scope})", lambda function=function, scope=scope: ask(function, c_uint(scope))


def clock_queries(gpu: Any) -> Iterator[Query]:
    for kind in range(4):
        for which in range(4):
            yield (
                f"nvmlDeviceGetClock({kind}, {which})",
                lambda kind=kind, which=which: answer(
                    "nvmlDeviceGetClock", (gpu, c_uint(kind), c_uint(which)), c_uint()
                ),
            )
    yield "nvmlDeviceGetSupportedMemoryClocks", lambda: counted("nvmlDeviceGetSupportedMemoryClocks", gpu)

    def graphics_clocks() -> dict[str, list[int]]:
        memory = counted("nvmlDeviceGetSupportedMemoryClocks", gpu)
        return {str(one): counted("nvmlDeviceGetSupportedGraphicsClocks", gpu, c_uint(one)) for one in memory}

    yield "nvmlDeviceGetSupportedGraphicsClocks", graphics_clocks
    yield (
        "nvmlDeviceGetSupportedGraphicsClocks(1)",
        lambda: counted("nvmlDeviceGetSupportedGraphicsClocks", gpu, c_uint(1)),
    )


def health_queries(gpu: Any) -> Iterator[Query]:
    yield (
        "nvmlDeviceGetRemappedRows",
        lambda: answer("nvmlDeviceGetRemappedRows", (gpu,), *(c_uint() for _ in range(4))),
    )
    for cause in range(3):
        yield (
            f"nvmlDeviceGetRetiredPages({cause})",
            lambda cause=cause: counted("nvmlDeviceGetRetiredPages", gpu, c_uint(cause), kind=c_ulonglong),
        )
        yield (
            f"nvmlDeviceGetRetiredPages_v2({cause})",
            lambda cause=cause: retired_pages(gpu, cause),
        )
    for kind in range(2):
        for counter in range(2):
            before = (gpu, c_uint(kind), c_uint(counter))
            yield (
                f"nvmlDeviceGetTotalEccErrors({kind}, {counter})",
                lambda before=before: answer("nvmlDeviceGetTotalEccErrors", before, c_ulonglong()),
            )
            for place in range(9):
                yield (
                    f"nvmlDeviceGetMemoryErrorCounter({kind}, {counter}, {place})",
                    lambda before=before, place=place: answer(
                        "nvmlDeviceGetMemoryErrorCounter", (*before, c_uint(place)), c_ulonglong()
                    ),
                )


def retired_pages(gpu: Any, cause: int) -> list[int]:
    found, pages, times = c_uint(1024), (c_ulonglong * 1024)(), (c_ulonglong * 1024)()
    call("nvmlDeviceGetRetiredPages_v2", gpu, c_uint(cause), ctypes.byref(found), pages, times)
    return list(pages[: found.value])


def process_queries(gpu: Any) -> Iterator[Query]:
    second = plain(("pid", c_uint), ("memory", c_ulonglong), ("gi", c_uint), ("ci", c_uint))
    first = plain(("pid", c_uint), ("memory", c_ulonglong))
    for kind in ("Compute", "Graphics", "MPSCompute"):
        for version in ("", "_v2", "_v3"):
            function = f"nvmlDeviceGet{kind}RunningProcesses{version}"
            layout = second if version else first
            yield function, lambda function=function, layout=layout: len(counted(function, gpu, kind=layout))


def link_queries(gpu: Any) -> Iterator[Query]:
    for link in range(LINKS + 1):
        for name in LINK_NUMBERS:
            function = f"nvmlDeviceGetNvLink{name}"
            yield (
                f"{function}({link})",
                lambda function=function, link=link: answer(function, (gpu, c_uint(link)), c_uint()),
            )
    for link in (0, LINKS):
        for which in range(7):
            yield (
                f"nvmlDeviceGetNvLinkCapability({link}, {which})",
                lambda link=link, which=which: answer(
                    "nvmlDeviceGetNvLinkCapability", (gpu, c_uint(link), c_uint(which)), c_uint()
                ),
            )
        for which in range(6):
            yield (
                f"nvmlDeviceGetNvLinkErrorCounter({link}, {which})",
                lambda link=link, which=which: answer(
                    "nvmlDeviceGetNvLinkErrorCounter", (gpu, c_uint(link), c_uint(which)), c_ulonglong()
                ),
            )
        yield (
            f"nvmlDeviceGetNvLinkRemotePciInfo_v2({link})",
            lambda link=link: answer("nvmlDeviceGetNvLinkRemotePciInfo_v2", (gpu, c_uint(link)), Pci()),
        )


def mig_queries(gpu: Any) -> Iterator[Query]:
    placement = plain(*numbers("start size"))
    kinds: dict[str, Callable[[], Any]] = {
        "nvmlDeviceGetGpuInstanceProfileInfo({})": PROFILE,
        "nvmlDeviceGetGpuInstanceProfileInfoV({})": PROFILE2,
        "nvmlDeviceGetGpuInstanceProfileInfoV({}, 3)": PROFILE3,
    }
    for profile in GPU_INSTANCE_PROFILES:
        for name, make in kinds.items():
            function = name.split("(")[0]
            yield (
                name.format(profile),
                lambda function=function, profile=profile, make=make: answer(function, (gpu, c_uint(profile)), make()),
            )

        def ids_of(profile: int = profile) -> Any:
            info = PROFILE()
            call("nvmlDeviceGetGpuInstanceProfileInfo", gpu, c_uint(profile), ctypes.byref(info))
            return c_uint(info.id)

        yield (
            f"nvmlDeviceGetGpuInstanceProfileInfoByIdV({profile})",
            lambda ids_of=ids_of: answer("nvmlDeviceGetGpuInstanceProfileInfoByIdV", (gpu, ids_of()), PROFILE2()),
        )
        yield (
            f"nvmlDeviceGetGpuInstancePossiblePlacements_v2({profile})",
            lambda ids_of=ids_of: possible_placements(gpu, ids_of(), placement),
        )
        yield (
            f"nvmlDeviceGetGpuInstanceRemainingCapacity({profile})",
            lambda ids_of=ids_of: answer("nvmlDeviceGetGpuInstanceRemainingCapacity", (gpu, ids_of()), c_uint()),
        )
    yield (
        "nvmlDeviceGetGpuInstanceProfileInfoByIdV(no such id)",
        lambda: answer("nvmlDeviceGetGpuInstanceProfileInfoByIdV", (gpu, c_uint(999)), PROFILE2()),
    )
    yield (
        "nvmlDeviceGetGpuInstancePossiblePlacements_v2(no such id)",
        lambda: possible_placements(gpu, c_uint(999), placement),
    )
    yield (
        "nvmlDeviceGetGpuInstanceById(0)",
        lambda: answer("nvmlDeviceGetGpuInstanceById", (gpu, c_uint(0)), ctypes.c_void_p()) and None,
    )
    yield (
        "nvmlDeviceGetMigDeviceHandleByIndex(0)",
        lambda: answer("nvmlDeviceGetMigDeviceHandleByIndex", (gpu, c_uint(0)), ctypes.c_void_p()) and None,
    )
    yield (
        "nvmlDeviceGetMigDeviceHandleByIndex(99)",
        lambda: answer("nvmlDeviceGetMigDeviceHandleByIndex", (gpu, c_uint(99)), ctypes.c_void_p()) and None,
    )


def possible_placements(gpu: Any, profile: c_uint, kind: Any) -> Any:
    found, room = c_uint(32), (kind * 32)()
    call("nvmlDeviceGetGpuInstancePossiblePlacements_v2", gpu, profile, room, ctypes.byref(found))
    return [[room[index].start, room[index].size] for index in range(found.value)]


def field(gpu: Any, number: int) -> dict[str, Any]:
    kind = plain(
        *numbers("id scope"),
        *numbers("time latency", c_longlong),
        ("type", c_uint),
        ("result", c_int),
        ("value", c_ulonglong),
    )
    one = kind(id=number)
    call("nvmlDeviceGetFieldValues", gpu, c_int(1), ctypes.byref(one))
    if one.result != nvml.NVML_SUCCESS:
        raise Refused(result_name(one.result))
    return {"type": one.type, "value": one.value}


def system_queries() -> Iterator[Query]:
    for name in ("DriverVersion", "NVMLVersion"):
        yield f"nvmlSystemGet{name}", lambda name=name: text(f"nvmlSystemGet{name}")
    for name in ("CudaDriverVersion", "CudaDriverVersion_v2"):
        yield f"nvmlSystemGet{name}", lambda name=name: answer(f"nvmlSystemGet{name}", (), c_int())
    yield "nvmlSystemGetDriverBranch", lambda: str(simple(nvml.nvmlSystemGetDriverBranch().branch))
    yield "nvmlDeviceGetHandleByIndex(99)", lambda: nvml.nvmlDeviceGetHandleByIndex(99) and None
    yield "nvmlDeviceGetHandleByUUID(no such)", lambda: nvml.nvmlDeviceGetHandleByUUID("GPU-1") and None
    yield "nvmlDeviceGetHandleByPciBusId(no such)", lambda: nvml.nvmlDeviceGetHandleByPciBusId("0000:fe:1f.0") and None
    yield "nvmlDeviceGetHandleByPciBusId(none at all)", lambda: nvml.nvmlDeviceGetHandleByPciBusId("nonsense") and None
    yield "nvmlDeviceGetHandleBySerial(no such)", lambda: nvml.nvmlDeviceGetHandleBySerial("1") and None


def address_queries(gpu: Any) -> Iterator[Query]:
    """In which forms an address is understood."""
    own = nvml.nvmlDeviceGetPciInfo(gpu)
    forms = {
        "eight digits": own.busId,
        "four digits": own.busIdLegacy,
        "lower case": str(own.busIdLegacy).lower(),
        "no domain": str(own.busIdLegacy).split(":", 1)[1],
        "no function": str(own.busIdLegacy).split(".", maxsplit=1)[0],
    }
    for name, form in forms.items():
        yield (
            f"nvmlDeviceGetHandleByPciBusId({name})",
            lambda form=form: nvml.nvmlDeviceGetHandleByPciBusId(form) and None,
        )


def pair_queries(gpu: Any, other: Any) -> Iterator[Query]:
    yield (
        "nvmlDeviceGetTopologyCommonAncestor",
        lambda: answer("nvmlDeviceGetTopologyCommonAncestor", (gpu, other), c_uint()),
    )
    yield "nvmlDeviceOnSameBoard", lambda: answer("nvmlDeviceOnSameBoard", (gpu, other), c_int())
    for which in range(6):
        yield (
            f"nvmlDeviceGetP2PStatus({which})",
            lambda which=which: answer("nvmlDeviceGetP2PStatus", (gpu, other, c_uint(which)), c_uint()),
        )


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
    """All answers of one GPU. Those about two of them are of the GPU and the next one, or of the GPU and itself."""
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

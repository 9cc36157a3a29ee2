"""The fake NVML: NVIDIA's own binding runs on it, processes see each other's changes, and it has the traps of NVML."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from typing import Any

import pynvml as nvml
import pytest

from harness.fakes import nvml as fake_nvml
from harness.fakes.nvml import Machine, fake

Handle = Any


@pytest.fixture
def machine() -> Iterator[Machine]:
    with fake(["H200", "RTX 4090"]) as fake_machine:
        nvml.nvmlInit()
        yield fake_machine


@pytest.fixture
def h200(machine: Machine) -> Handle:
    return nvml.nvmlDeviceGetHandleByIndex(0)


def refused(name: str) -> Any:
    return pytest.raises(getattr(nvml, f"NVMLError_{name}"))


def divide(gpu: Handle, profile: int = 19) -> tuple[Handle, Handle]:
    """Create a GPU instance, with a compute instance in all of it."""
    nvml.nvmlDeviceSetMigMode(gpu, 1)
    instance = nvml.nvmlDeviceCreateGpuInstance(gpu, profile)
    return instance, nvml.nvmlGpuInstanceCreateComputeInstance(instance, 0)


# --- It is a library for everyone ---


@pytest.mark.parametrize("name", fake_nvml.models())
def test_every_model_answers_nvidias_own_binding(name: str) -> None:
    with fake([name, name]) as machine:
        nvml.nvmlInit()
        assert nvml.nvmlDeviceGetCount() == 2
        for gpu in machine.gpus:
            handle = nvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
            assert nvml.nvmlDeviceGetPciInfo(handle).busId == f"0000{gpu.pci_address}"
            memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
            assert memory.total == memory.reserved + memory.used + memory.free
            lowest, highest = nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)
            assert lowest <= nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle) <= highest


def test_unknown_model_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="RTX 9090 is no model of the fake NVML: a100_40gb, "):
        fake_nvml.cards(["RTX 9090"])


def test_another_process_sees_what_this_one_has_set(machine: Machine, h200: Handle) -> None:
    program = "import pynvml as n; n.nvmlInit(); g = n.nvmlDeviceGetHandleByIndex(0); {}"

    def elsewhere(code: str) -> str:
        command = [sys.executable, "-c", program.format(code)]
        return subprocess.run(
            command, env={**os.environ, **machine.env}, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    nvml.nvmlDeviceSetPersistenceMode(h200, 1)
    assert elsewhere("print(n.nvmlDeviceGetPersistenceMode(g))") == "1\n"
    elsewhere("n.nvmlDeviceSetPowerManagementLimit(g, 500000)")
    assert nvml.nvmlDeviceGetPowerManagementLimit(h200) == 500000
    assert machine.writes == 2


def test_no_change_is_lost_when_processes_write_at_once(machine: Machine) -> None:
    program = (
        "import pynvml as n; n.nvmlInit(); g = n.nvmlDeviceGetHandleByIndex({});"
        "[n.nvmlDeviceSetPersistenceMode(g, i % 2) for i in range(101)]"
    )
    writers = [subprocess.Popen([sys.executable, "-c", program.format(gpu)]) for gpu in (0, 1, 0)]
    machine.set(0, temperature__gpu=77)
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert machine.writes == 303
    assert nvml.nvmlDeviceGetTemperatureV(nvml.nvmlDeviceGetHandleByIndex(0), 0) == 77


def test_missing_function_is_not_found(h200: Handle) -> None:
    with refused("FunctionNotFound"):
        nvml.nvmlDeviceGetPerformanceModes(h200)


def test_half_written_state_is_an_error(machine: Machine, h200: Handle, capfd: pytest.CaptureFixture[str]) -> None:
    whole = machine.path.read_text()
    for length in (0, 5, len(whole) // 2, len(whole) - 2):
        machine.path.write_text(whole[:length])
        with refused("Unknown"):
            nvml.nvmlDeviceGetPowerUsage(h200)
        assert f"{machine.path} is half-written" in capfd.readouterr().err
    machine.path.write_text(whole)
    assert nvml.nvmlDeviceGetPowerUsage(h200) > 0


def test_a_structure_of_another_version_is_refused(h200: Handle) -> None:
    temperature, memory = nvml.c_nvmlTemperature_v1_t(version=0x0200000C), nvml.c_nvmlMemory_v2_t(version=0x03000028)
    for function, structure, result in (
        ("nvmlDeviceGetTemperatureV", temperature, nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH),
        ("nvmlDeviceGetMemoryInfo_v2", memory, nvml.NVML_ERROR_FUNCTION_NOT_FOUND),  # as recorded of an H100
    ):
        assert nvml._nvmlGetFunctionPointer(function)(h200, nvml.byref(structure)) == result


# --- Errors of the machine ---


def test_a_lost_gpu_answers_nothing_while_the_others_do(machine: Machine, h200: Handle) -> None:
    machine.lose(gpu=0)
    with refused("GpuIsLost"):
        nvml.nvmlDeviceGetPowerUsage(h200)
    with refused("GpuIsLost"):
        nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(1)) == "NVIDIA GeForce RTX 4090"
    machine.reboot()
    assert nvml.nvmlDeviceGetPowerUsage(h200) > 0


def test_dead_gpu_is_not_counted_after_a_reload(machine: Machine, h200: Handle) -> None:
    machine.kill(gpu=0)
    assert nvml.nvmlDeviceGetCount() == 2
    machine.reboot()
    assert nvml.nvmlDeviceGetCount() == 1
    assert nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(0)) == "NVIDIA GeForce RTX 4090"
    with refused("GpuIsLost"):
        nvml.nvmlDeviceGetPowerUsage(h200)


def test_an_inforom_with_a_wrong_checksum_is_corrupted(machine: Machine, h200: Handle) -> None:
    nvml.nvmlDeviceValidateInforom(h200)
    machine.set(0, inforom__valid=0)
    with refused("CorruptedInforom"):
        nvml.nvmlDeviceValidateInforom(h200)


def test_upgraded_library_mismatches_until_a_reboot(machine: Machine) -> None:
    machine.upgrade_library("590.48.01")
    with refused("LibRmVersionMismatch"):
        nvml.nvmlInit()
    machine.reboot()
    nvml.nvmlInit()
    assert nvml.nvmlSystemGetDriverVersion() == "590.48.01"


def test_missing_driver_fails_all_calls(machine: Machine) -> None:
    machine.unload_driver()
    with refused("DriverNotLoaded"):
        nvml.nvmlInit()


@pytest.mark.parametrize("function", ["nvmlDeviceGetPowerUsage", "any"])
def test_injected_failures_have_a_start_and_a_count(machine: Machine, h200: Handle, function: str) -> None:
    machine.fail(function, "TIMEOUT", skip=1, times=2)
    nvml.nvmlDeviceGetPowerUsage(h200)
    for _time in range(2):
        with refused("Timeout"):
            nvml.nvmlDeviceGetPowerUsage(h200)
    nvml.nvmlDeviceGetPowerUsage(h200)


def test_missing_function_cannot_be_injected(machine: Machine) -> None:
    with pytest.raises(ValueError, match="nvmlDeviceSetMigMod is not in the fake NVML"):
        machine.fail("nvmlDeviceSetMigMod", "IN_USE")


def test_failed_writes_change_nothing_and_are_counted(machine: Machine, h200: Handle) -> None:
    before = machine.state()
    machine.fail("write", "NO_PERMISSION")
    with refused("NoPermission"):
        nvml.nvmlDeviceSetPersistenceMode(h200, 1)
    assert (machine.state(), machine.writes) == (before, 1)


def test_without_permission_nothing_is_written(machine: Machine, h200: Handle) -> None:
    machine.set(0, unprivileged=1)
    before = machine.state()
    with refused("NoPermission"):
        nvml.nvmlDeviceSetMigMode(h200, 1)
    assert machine.state() == before


def test_state_is_readable_under_any_umask(machine: Machine, h200: Handle) -> None:
    earlier = os.umask(0o077)
    try:
        nvml.nvmlDeviceSetPersistenceMode(h200, 1)
    finally:
        os.umask(earlier)
    assert machine.path.stat().st_mode & 0o777 == 0o644


def test_unknown_fact_is_refused(machine: Machine) -> None:
    with pytest.raises(ValueError, match="temperature.gpus is no fact of any model"):
        machine.set(0, temperature__gpus=90)


# --- MIG ---


def test_hopper_changes_its_mode_without_a_reset(machine: Machine, h200: Handle) -> None:
    assert nvml.nvmlDeviceSetMigMode(h200, 1) == nvml.NVML_SUCCESS
    assert nvml.nvmlDeviceGetMigMode(h200) == [1, 1]
    machine.reboot()
    assert nvml.nvmlDeviceGetMigMode(h200) == [0, 0]


def test_ampere_needs_a_reset_and_keeps_its_mode() -> None:
    with fake(["A100 80GB"]) as machine:
        nvml.nvmlInit()
        gpu = nvml.nvmlDeviceGetHandleByIndex(0)
        assert nvml.nvmlDeviceSetMigMode(gpu, 1) == nvml.NVML_ERROR_RESET_REQUIRED
        assert nvml.nvmlDeviceGetMigMode(gpu) == [0, 1]
        machine.reset(gpu=0)
        assert nvml.nvmlDeviceGetMigMode(gpu) == [1, 1]
        divide(gpu)
        machine.reboot()
        assert nvml.nvmlDeviceGetMigMode(gpu) == [1, 1]
        count = nvml.c_uint(9)
        nvml.nvmlDeviceGetGpuInstances(gpu, 19, (nvml.c_nvmlGpuInstance_t * 7)(), nvml.byref(count))
        assert count.value == 0


def test_mode_is_pending_while_a_process_runs(machine: Machine, h200: Handle) -> None:
    machine.run_process(gpu=0, pid=4242)
    assert nvml.nvmlDeviceSetMigMode(h200, 1) == nvml.NVML_ERROR_IN_USE
    assert nvml.nvmlDeviceGetMigMode(h200) == [0, 1]


def test_success_with_a_failed_activation_can_be_injected(machine: Machine, h200: Handle) -> None:
    machine.fail("nvmlDeviceSetMigMode", "SUCCESS", activation="RESET_REQUIRED")
    assert nvml.nvmlDeviceSetMigMode(h200, 1) == nvml.NVML_ERROR_RESET_REQUIRED


def test_the_driver_places_small_instances_in_its_own_order(h200: Handle) -> None:
    nvml.nvmlDeviceSetMigMode(h200, 1)
    starts = [nvml.nvmlGpuInstanceGetInfo(nvml.nvmlDeviceCreateGpuInstance(h200, 19)) for _instance in range(7)]
    assert [info.placement.start for info in starts] == [6, 4, 5, 0, 1, 2, 3]
    with refused("InsufficientResources"):
        nvml.nvmlDeviceCreateGpuInstance(h200, 19)


@pytest.mark.parametrize(
    ("name", "wanted", "fits"),
    [
        ("H200", ["3g.71gb", "4g.71gb"], True),
        ("H200", ["3g.71gb", "3g.71gb", "1g.18gb"], False),
        ("H200", ["1g.18gb+me", "1g.18gb+me"], False),
        ("A30", ["2g.12gb+me", "1g.6gb+me"], False),
        ("RTX PRO 6000", ["2g.48gb", "1g.24gb", "1g.24gb+gfx"], True),
        ("RTX PRO 6000", ["1g.24gb"] * 4, True),
        ("RTX PRO 6000", ["4g.96gb", "1g.24gb"], False),
    ],
)
def test_instances_fit_as_their_memory_and_engines_do(name: str, wanted: list[str], fits: bool) -> None:
    facts = fake_nvml.model(name)
    ids = {facts[key][4:]: int(facts[key[:-4] + "id"]) for key in facts if key.endswith(".name")}
    with fake([name]) as machine:
        machine.set(0, mig__mode=1)
        nvml.nvmlInit()
        gpu = nvml.nvmlDeviceGetHandleByIndex(0)
        *first, last = (ids[profile] for profile in wanted)
        for profile in first:
            nvml.nvmlDeviceCreateGpuInstance(gpu, profile)
        if fits:
            nvml.nvmlDeviceCreateGpuInstance(gpu, last)
        else:
            with refused("InsufficientResources"):
                nvml.nvmlDeviceCreateGpuInstance(gpu, last)


def test_instance_in_use_is_not_destroyed(machine: Machine, h200: Handle) -> None:
    instance, compute = divide(h200)
    inside = nvml.nvmlGpuInstanceGetInfo(instance).id, nvml.nvmlComputeInstanceGetInfo(compute).id
    with refused("InUse"):
        nvml.nvmlGpuInstanceDestroy(instance)
    machine.run_process(gpu=0, pid=4242, instance=inside)
    with refused("InUse"):
        nvml.nvmlComputeInstanceDestroy(compute)
    machine.end_process(gpu=0, pid=4242)
    nvml.nvmlComputeInstanceDestroy(compute)
    nvml.nvmlGpuInstanceDestroy(instance)
    with refused("NotFound"):
        nvml.nvmlGpuInstanceGetInfo(instance)


def test_a_mig_device_has_a_uuid_by_which_it_is_found(h200: Handle) -> None:
    divide(h200)
    device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(h200, 0)
    uuid = nvml.nvmlDeviceGetUUID(device)
    assert uuid.startswith("MIG-")
    assert nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByUUID(uuid)) == "NVIDIA H200 MIG 1g.18gb"
    with refused("NotFound"):
        nvml.nvmlDeviceGetHandleByUUID("MIG-")


@pytest.mark.parametrize("name", ["RTX 4090", "GTX 1080", "T4", "V100"])
def test_card_without_mig_does_not_support_it(name: str) -> None:
    with fake([name]):
        nvml.nvmlInit()
        gpu = nvml.nvmlDeviceGetHandleByIndex(0)
        for call in (nvml.nvmlDeviceGetMigMode, lambda gpu: nvml.nvmlDeviceSetMigMode(gpu, 1)):
            with refused("NotSupported"):
                call(gpu)


# --- Modes ---


def test_modes_are_lost_when_the_driver_is_loaded_again(machine: Machine, h200: Handle) -> None:
    before = machine.state()
    nvml.nvmlDeviceSetPersistenceMode(h200, 1)
    nvml.nvmlDeviceSetComputeMode(h200, nvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
    nvml.nvmlDeviceSetPowerManagementLimit(h200, 300000)
    nvml.nvmlDeviceSetGpuLockedClocks(h200, 900, 1200)
    machine.reload_driver()
    assert machine.state() == before


def test_ecc_waits_for_a_reset(machine: Machine, h200: Handle) -> None:
    nvml.nvmlDeviceSetEccMode(h200, 0)
    assert nvml.nvmlDeviceGetEccMode(h200) == [1, 0]
    machine.reset(gpu=0)
    assert nvml.nvmlDeviceGetEccMode(h200) == [0, 0]


def test_locked_clocks_show_in_the_clock_of_the_moment(h200: Handle) -> None:
    nvml.nvmlDeviceSetGpuLockedClocks(h200, 900, 1200)
    assert nvml.nvmlDeviceGetClockInfo(h200, nvml.NVML_CLOCK_SM) == 900
    nvml.nvmlDeviceResetGpuLockedClocks(h200)
    assert nvml.nvmlDeviceGetClockInfo(h200, nvml.NVML_CLOCK_SM) == 345


def test_a_power_limit_outside_the_range_is_refused(h200: Handle) -> None:
    for limit in (199999, 700001):
        with refused("InvalidArgument"):
            nvml.nvmlDeviceSetPowerManagementLimit(h200, limit)


GEFORCE_LACKS: list[Callable[[Handle], Any]] = [
    nvml.nvmlDeviceGetEccMode,
    nvml.nvmlDeviceGetRemappedRows,
    nvml.nvmlDeviceGetSerial,
    lambda gpu: nvml.nvmlDeviceGetRetiredPages(gpu, 0),
    lambda gpu: nvml.nvmlDeviceGetNvLinkState(gpu, 0),
]


@pytest.mark.parametrize("ask", GEFORCE_LACKS)
def test_missing_features_of_a_geforce_are_not_supported(machine: Machine, ask: Callable[[Handle], Any]) -> None:
    with refused("NotSupported"):
        ask(nvml.nvmlDeviceGetHandleByIndex(1))


# --- Memory and processes ---


def test_the_first_memory_call_counts_the_reserve_as_used(machine: Machine, h200: Handle) -> None:
    machine.run_process(gpu=0, pid=1, memory_mib=1024)
    first = nvml.nvmlDeviceGetMemoryInfo(h200)
    second = nvml.nvmlDeviceGetMemoryInfo(h200, version=nvml.nvmlMemory_v2)
    assert second.used == 1 << 30
    assert first.used == second.used + second.reserved


def test_processes_are_listed_by_their_kind(machine: Machine, h200: Handle) -> None:
    machine.run_process(gpu=0, pid=1, kind="compute")
    machine.run_process(gpu=0, pid=2, kind="graphics", memory_mib=None)
    machine.run_process(gpu=0, pid=3, kind="mps")
    assert [process.pid for process in nvml.nvmlDeviceGetComputeRunningProcesses(h200)] == [1]
    assert [(process.pid, process.usedGpuMemory) for process in nvml.nvmlDeviceGetGraphicsRunningProcesses(h200)] == [
        (2, None)
    ]
    assert [process.pid for process in nvml.nvmlDeviceGetMPSComputeRunningProcesses(h200)] == [3]


def test_limits_by_control_group_come_with_driver_615(machine: Machine, h200: Handle) -> None:
    group = b"/sys/fs/cgroup/user.slice"
    limits, current = nvml.c_nvmlSetMemoryLimits_v1_t(group, 1 << 30, 2 << 30), nvml.c_nvmlGetMemoryLimits_v1_t(group)
    with refused("FunctionNotFound"):
        nvml.nvmlDeviceSetMemoryLimits_v1(h200, limits)
    machine.upgrade_library("615.71.05")
    machine.reboot()
    nvml.nvmlDeviceGetMemoryLimits_v1(h200, current)
    assert current.hardLimit == nvml.NVML_DEVICE_MEMORY_LIMIT_MAX
    nvml.nvmlDeviceSetMemoryLimits_v1(h200, limits)
    nvml.nvmlDeviceGetMemoryLimits_v1(h200, current)
    assert (current.softLimit, current.hardLimit) == (1 << 30, 2 << 30)


# --- nvidia-smi ---


def smi(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["nvidia-smi", *arguments], check=False, stdout=subprocess.PIPE, text=True)


def xml(*arguments: str) -> ET.Element:
    return ET.fromstring(smi(*arguments).stdout)  # noqa: S314  our own program's


def test_nvidia_smi_lists_gpus_and_instances(machine: Machine, h200: Handle) -> None:
    divide(h200)
    mig = nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetMigDeviceHandleByIndex(h200, 0))
    assert smi("-L").stdout == (
        f"GPU 0: NVIDIA H200 (UUID: {machine.gpus[0].uuid})\n"
        f"  MIG 1g.18gb     Device  0: (UUID: {mig})\n"
        f"GPU 1: NVIDIA GeForce RTX 4090 (UUID: {machine.gpus[1].uuid})\n"
    )


def test_nvidia_smi_prints_the_answers_of_nvml_as_xml(machine: Machine, h200: Handle) -> None:
    machine.run_process(gpu=1, pid=4242, kind="graphics", memory_mib=64, name="/usr/bin/Xorg & <co>")
    log = xml("-q", "-x")
    first, second = log.iter("gpu")
    assert first.get("id") == "00000000:41:00.0"
    assert [
        first.findtext(path) for path in ("uuid", "ecc_mode/current_ecc", "remapped_rows/remapped_row_pending")
    ] == [
        machine.gpus[0].uuid,
        "Enabled",
        "No",
    ]
    assert [second.findtext(path) for path in ("ecc_mode/current_ecc", "remapped_rows", "serial")] == ["N/A"] * 3
    assert [process.findtext("process_name") for process in second.iter("process_info")] == ["/usr/bin/Xorg & <co>"]
    assert [gpu.findtext("uuid") for gpu in xml("-q", "-x", "-i", "1").iter("gpu")] == [machine.gpus[1].uuid]


def test_nvidia_smi_resets_an_idle_gpu(machine: Machine, h200: Handle) -> None:
    nvml.nvmlDeviceSetEccMode(h200, 0)
    machine.run_process(gpu=0, pid=1)
    assert smi("--gpu-reset", "-i", "0").returncode == 3
    machine.end_process(gpu=0, pid=1)
    assert smi("--gpu-reset", "-i", machine.gpus[0].uuid).returncode == 0
    assert nvml.nvmlDeviceGetEccMode(h200) == [0, 0]


def test_the_time_slice_is_set_for_a_gpu_and_lost_at_a_reboot(machine: Machine) -> None:
    assert smi("compute-policy", "--set-timeslice=2", "-i", "1").returncode == 0
    assert [line.split()[1:4] for line in smi("compute-policy", "-l").stdout.splitlines() if "Timeslice" in line] == [
        ["0", "Timeslice", "Default"],
        ["1", "Timeslice", "Medium"],
    ]
    assert smi("compute-policy", "--set-timeslice=4").returncode != 0
    machine.reboot()
    assert "Medium" not in smi("compute-policy", "-l").stdout


def test_nvidia_smi_reports_a_mismatch_of_library_and_module(machine: Machine) -> None:
    machine.upgrade_library("590.48.01")
    ended = smi("-L")
    assert (ended.returncode, ended.stdout) == (18, "Failed to initialize NVML: Driver/library version mismatch\n")

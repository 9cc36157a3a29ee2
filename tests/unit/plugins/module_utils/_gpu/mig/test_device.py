# SPDX-License-Identifier: GPL-3.0-or-later
"""The MIG state from NVML, and its single calls, on fake GPUs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.device import Device
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.layout import Compute
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.steps import (
    CREATE,
    CREATE_COMPUTE,
    DESTROY,
    Step,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError

from harness.fakes.nvml import Machine, fake
from tests.unit.support.gpu.mig_cards import CARDS, compute_starts


@pytest.fixture
def machine() -> Iterator[Machine]:
    with fake(["H200"]) as fake_machine:
        fake_machine.set(0, **{"mig.mode": 1, "mig.pending": 1})
        yield fake_machine


@pytest.fixture
def device(machine: Machine) -> Iterator[Device]:
    with Nvml() as nvml:
        yield Device(nvml, machine.gpus[0].uuid)


def make(device: Device, profile: str, start: int, *compute: tuple[int, int | None]) -> None:
    device.take(Step(CREATE, profile, start))
    for slices, at in compute:
        device.take(Step(CREATE_COMPUTE, profile, start, Compute(slices, at)))


@pytest.mark.parametrize("model", CARDS)
def test_profiles_are_read_from_the_card(model: str) -> None:
    """Read profiles by number and all else by id: the two differ."""
    with fake([model]) as machine, Nvml() as nvml:
        found = Device(nvml, machine.gpus[0].uuid).read().profiles
    assert {
        name: (profile.id, profile.slices, profile.size, profile.starts, profile.maximum, profile.engines)
        for name, profile in found.items()
    } == {
        name: (profile.id, profile.slices, profile.size, profile.starts, profile.maximum, profile.engines)
        for name, profile in CARDS[model].items()
    }


def test_instances_are_read_with_places_uuids_and_processes(device: Device, machine: Machine) -> None:
    make(device, "3g.71gb", 4, (2, 0), (1, 2))
    make(device, "1g.18gb", 1, (1, None))
    small, large = device.read().layout
    machine.run_process(gpu=0, pid=4242, instance=(large.id, large.compute[1].id))
    small, large = device.read().layout
    assert (small.place, large.place) == (("1g.18gb", 1), ("3g.71gb", 4))
    assert [compute.place for compute in large.compute] == [(2, 0), (1, 2)]
    assert [compute.pids for compute in large.compute] == [(), (4242,)]
    assert (small.pids, large.pids) == ((), (4242,))
    assert len({compute.uuid for instance in (small, large) for compute in instance.compute}) == 3
    assert dict(large.compute_starts or {}) == compute_starts(3)


def test_process_without_compute_instance_counts_for_all(device: Device, machine: Machine) -> None:
    make(device, "3g.71gb", 0, (1, 0), (1, 1))
    (instance,) = device.read().layout
    machine.run_process(gpu=0, pid=7, instance=(instance.id, 2**32 - 1))
    (instance,) = device.read().layout
    assert [compute.pids for compute in instance.compute] == [(7,), (7,)]


def test_trap_10_old_drivers_use_their_correct_structure() -> None:
    with fake(["H200"], driver="535.54.03") as machine, Nvml() as nvml:
        machine.fail("nvmlDeviceGetComputeRunningProcesses_v3", "UNKNOWN", times=0)
        Device(nvml, machine.gpus[0].uuid).read()


def test_a_card_without_mig_has_no_mode() -> None:
    with fake(["RTX 4090"]) as machine, Nvml() as nvml:
        state = Device(nvml, machine.gpus[0].uuid).read()
    assert (state.mode, state.pending, state.resetless, dict(state.profiles), state.layout) == (
        None,
        None,
        False,
        {},
        (),
    )


def test_step_on_a_removed_instance_is_an_error(device: Device) -> None:
    device.read()
    for step in (
        Step(DESTROY, "3g.71gb", 0),
        Step(CREATE_COMPUTE, "3g.71gb", 0, Compute(3, 0)),
        Step("destroy_compute", "3g.71gb", 0, Compute(3, 0)),
    ):
        with pytest.raises(NvmlError) as error:
            device.take(step)
        assert error.value.name == "NOT_FOUND"
    make(device, "3g.71gb", 0)
    with pytest.raises(NvmlError, match="NOT_FOUND"):
        device.take(Step("destroy_compute", "3g.71gb", 0, Compute(3, 0)))


def test_unread_device_knows_its_profiles(device: Device) -> None:
    make(device, "3g.71gb", 0)
    assert [instance.place for instance in device.read().layout] == [("3g.71gb", 0)]


@pytest.mark.parametrize("status", ["IN_USE", "RESET_REQUIRED"])
def test_trap_1_failed_activation_status_is_an_error(device: Device, machine: Machine, status: str) -> None:
    machine.fail("nvmlDeviceSetMigMode", "SUCCESS", activation=status)
    with pytest.raises(NvmlError) as error:
        device.set_mode("disabled")
    assert (error.value.name, error.value.function) == (status, "nvmlDeviceSetMigMode")


def test_driver_without_placements_places_compute_instances(device: Device, machine: Machine) -> None:
    make(device, "3g.71gb", 0)
    machine.fail("nvmlGpuInstanceGetComputeInstancePossiblePlacements", "FUNCTION_NOT_FOUND", times=0)
    assert device.read().layout[0].compute_starts is None
    assert device.settle("3g.71gb", 0, [1, 2]) == [Compute(2), Compute(1)]

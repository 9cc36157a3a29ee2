# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans on the fake NVML: they are applied or reverted, whichever call fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.apply import Failed, apply
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.device import Device
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.layout import Layout, State
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.plan import CardBusy, plan
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.request import Request
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.result import described
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError, Refusal
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.fakes.nvml import Machine, fake
from tests.unit.support.gpu.mig_cards import CASES
from tests.unit.support.gpu.mig_requests import layouts

# Of each generation, and that with twelve slots. A100 and A30 change their mode by a reset.
MODELS = ("H200", "A100 40GB", "A30", "RTX PRO 6000")
ERRORS = (
    "UNKNOWN",
    "IN_USE",
    "GPU_IS_LOST",
    "NO_PERMISSION",
    "INSUFFICIENT_RESOURCES",
    "TIMEOUT",
)
# That there is no such thing, and so no instance of such a profile, is believed where it is the answer to a question.
ABSENT = ("NOT_FOUND", "NOT_SUPPORTED")


@contextmanager
def opened(machine: Machine) -> Iterator[Device]:
    with Nvml() as nvml:
        yield Device(nvml, machine.gpus[0].uuid)


def resets(machine: Machine) -> Any:
    return lambda: machine.reset(gpu=0)


def bring(machine: Machine, request: Request) -> State:
    with opened(machine) as device:
        return apply(device, plan(device.read(), request), resets(machine))


def on(*entries: Any, **options: Any) -> Request:
    layout = tuple(entry if isinstance(entry, dict) else {"profile": entry} for entry in entries)
    return Request("enabled", layout, allow_reset=True, **options)


def facts(machine: Machine) -> dict[str, str]:
    """Return the MIG facts of the fake NVML, with ids and UUIDs."""
    return {
        key: value
        for key, value in machine.state().items()
        if key.partition(".")[2].partition(".")[2].startswith(("gi.", "ci.", "mig.mode", "mig.pending"))
    }


def places(machine: Machine) -> set[tuple[Any, ...]]:
    """Return the places of instances, without ids: a recreated instance may get another."""
    with opened(machine) as device:
        state = device.read()
    return {
        (state.mode, state.pending),
        *((instance.place, frozenset(c.place for c in instance.compute)) for instance in state.layout),
    }


@pytest.fixture
def h200() -> Iterator[Machine]:
    with fake(["H200"]) as machine:
        yield machine


@st.composite
def failures(draw: st.DrawFn) -> tuple[Any, ...]:
    model = draw(st.sampled_from(MODELS))
    first = draw(st.none() | layouts(model))
    second = draw(st.none() | layouts(model))
    where = draw(st.sampled_from(["write", "any"]))
    skip = draw(st.integers(0, 25 if where == "write" else 400))
    error = draw(st.sampled_from((*ERRORS, *ABSENT) if where == "write" else ERRORS))
    return model, first, second, where, skip, error, draw(st.integers(0, 6))


def request_of(layout: list[dict[str, Any]] | None) -> Request:
    """Return the request for a layout; None is MIG switched off."""
    return Request("disabled", allow_reset=True) if layout is None else on(*layout)


@settings(max_examples=max(CASES // 2, 1))
@given(failures())
def test_failure_of_any_call_leaves_the_old_or_the_new_layout(case: Any) -> None:
    model, first, second, where, skip, error, pick = case
    with fake([model]) as machine:
        before = bring(machine, request_of(first))
        compute = [(instance.id, inner.id) for instance in before.layout for inner in instance.compute]
        busy = set()
        if compute:
            gi, ci = compute[pick % len(compute)]
            machine.run_process(gpu=0, pid=4242, instance=(gi, ci))
            busy = {f"gpu.0.ci.{gi}.{ci}"}
        was, writes = places(machine), machine.writes
        machine.fail(where, error, skip=skip)
        try:
            with opened(machine) as device:
                apply(device, plan(device.read(), request_of(second)), resets(machine))
            stopped = None
        except (Failed, NvmlError, CardBusy, Refusal) as error_:
            stopped = error_
        machine.stop_failing()
        if stopped is None:
            writes_after = machine.writes
            bring(machine, request_of(second))
            assert machine.writes == writes_after, "the second time changes nothing"
        else:
            assert places(machine) == was
            if isinstance(stopped, Failed):
                assert stopped.restored, stopped
            else:
                assert machine.writes == writes, "it was found out too late"
        assert busy <= facts(machine).keys()


@pytest.mark.parametrize("model", MODELS)
def test_layout_is_applied_and_a_second_run_writes_nothing(model: str) -> None:
    with fake([model]) as machine:
        names = {"A30": "1g.6gb", "RTX PRO 6000": "1g.24gb", "A100 40GB": "1g.5gb", "H200": "1g.18gb"}
        state = bring(machine, on({"profile": names[model], "count": 3}))
        assert [instance.profile for instance in state.layout] == [names[model]] * 3
        assert all(inner.uuid.startswith("MIG-") for instance in state.layout for inner in instance.compute)
        writes = machine.writes
        bring(machine, on({"profile": names[model], "count": 3}))
        assert machine.writes == writes


def uuids(layout: Layout) -> set[str]:
    return {inner.uuid for instance in layout for inner in instance.compute}


def test_kept_instance_keeps_its_uuid(h200: Machine) -> None:
    before = bring(h200, on("3g.71gb", "1g.18gb", "1g.18gb"))
    after = bring(h200, on("3g.71gb", "2g.35gb"))
    kept = [instance for instance in before.layout if instance.profile == "3g.71gb"]
    assert uuids(tuple(kept)) <= uuids(after.layout)


def test_migparted_b_no_other_gpu_is_changed() -> None:
    with fake(["H200", "H200"]) as machine:
        machine.fail("write", "UNKNOWN", gpu=1, times=0)
        bring(machine, on("7g.141gb"))
        assert machine.state()["gpu.1.mig.mode"] == "0"


def test_migparted_c_layout_that_fails_half_way_is_restored(h200: Machine) -> None:
    bring(h200, on("7g.141gb"))
    was = facts(h200)
    h200.fail("nvmlDeviceCreateGpuInstanceWithPlacement", "INSUFFICIENT_RESOURCES", skip=1)
    with pytest.raises(Failed, match="everything was restored") as failed:
        bring(h200, on("3g.71gb", "3g.71gb"))
    assert facts(h200) == was
    result = failed.value.as_result()
    assert (result["nvml_error"], result["restored"]) == ("INSUFFICIENT_RESOURCES", True)
    assert result["before"]["slots"] == result["now"]["slots"] == ["slots 0-7: 7g.141gb"]


@pytest.mark.parametrize("status", ["IN_USE", "RESET_REQUIRED"])
def test_migparted_f_failed_activation_is_no_success(h200: Machine, status: str) -> None:
    """Fail the activation: nvmlDeviceSetMigMode returns SUCCESS all the same."""
    h200.fail("nvmlDeviceSetMigMode", "SUCCESS", activation=status)
    with opened(h200) as device, pytest.raises(Failed) as failed:
        apply(device, plan(device.read(), Request("enabled")))
    assert failed.value.as_result()["nvml_error"] == status
    assert (h200.state()["gpu.0.mig.mode"], h200.state()["gpu.0.mig.pending"]) == ("0", "0")


def test_migparted_g_a30_uses_the_profile_names_of_nvml() -> None:
    with fake(["A30"]) as machine:
        state = bring(machine, on("2g.12gb+me", "1g.6gb", "1g.6gb"))
        assert sorted(instance.profile for instance in state.layout) == ["1g.6gb", "1g.6gb", "2g.12gb+me"]


def test_migparted_g_profiles_of_one_name_differ_by_number() -> None:
    with fake(["A30"]) as machine:
        machine.set(0, **{"mig.profile.8.name": "MIG 2g.12gb"})
        with opened(machine) as device:
            assert {"2g.12gb", "2g.12gb+me"} <= device.read().profiles.keys()


def test_successful_calls_with_another_result_are_no_success(h200: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare with nvidia-mig-parted #18: "applied successfully", with nothing applied."""
    was = facts(h200)
    with opened(h200) as device:
        plan_ = plan(device.read(), on("3g.71gb"))
        monkeypatch.setattr(device, "take", lambda step: None)
        with pytest.raises(Failed, match="the instances differ from the request: slot 0: free"):
            apply(device, plan_)
    assert facts(h200) == was


def test_failed_restore_is_reported_with_the_current_state(h200: Machine) -> None:
    bring(h200, on("7g.141gb"))
    h200.fail("nvmlDeviceCreateGpuInstanceWithPlacement", "INSUFFICIENT_RESOURCES", times=0)
    with pytest.raises(Failed, match="the restore failed too: nvmlDeviceCreateGpuInstanceWithPlacement") as failed:
        bring(h200, on("3g.71gb"))
    result = failed.value.as_result()
    assert not result["restored"]
    assert result["before"]["slots"] == ["slots 0-7: 7g.141gb"]
    assert result["now"]["slots"] == [f"slot {slot}: free" for slot in range(8)]


def test_gpu_lost_during_the_run_has_no_current_state(h200: Machine) -> None:
    bring(h200, on("7g.141gb"))
    h200.fail("nvmlDeviceCreateGpuInstanceWithPlacement", "GPU_IS_LOST")
    h200.fail("any", "GPU_IS_LOST", skip=h200_calls_until_create(h200), times=0)
    with pytest.raises(Failed) as failed:
        bring(h200, on("3g.71gb"))
    assert failed.value.as_result() | {"before": 0} == {
        "nvml_error": "GPU_IS_LOST",
        "function": failed.value.as_result()["function"],
        "next_step": failed.value.as_result()["next_step"],
        "restored": False,
        "before": 0,
        "now": None,
    }


def h200_calls_until_create(machine: Machine) -> int:
    """Return enough calls for the plan, as measured by a failure during its reads."""
    low = 0
    while True:
        low += 20
        machine_error = None
        with fake(["H200"]) as other:
            bring(other, on("7g.141gb"))
            other.fail("any", "TIMEOUT", skip=low)
            try:
                bring(other, on("3g.71gb"))
            except NvmlError as error:
                machine_error = error
            except Failed:
                return low
        assert machine_error is not None, "the plan came true before the failure"


def test_trap_5_instance_with_an_invisible_process_is_restored(h200: Machine) -> None:
    """Use an instance with a process of another container: NVML lists none, and destroying returns IN_USE."""
    bring(h200, on("3g.71gb", "3g.71gb"))
    was = facts(h200)
    h200.fail("nvmlGpuInstanceDestroy", "IN_USE", skip=1)
    with pytest.raises(Failed) as failed:
        bring(h200, on("7g.141gb"))
    assert failed.value.as_result()["nvml_error"] == "IN_USE"
    assert facts(h200) == was


def test_trap_9_graphics_process_counts(h200: Machine) -> None:
    h200.run_process(gpu=0, pid=77, kind="graphics")
    with opened(h200) as device, pytest.raises(CardBusy) as busy:
        plan(device.read(), Request("enabled"))
    assert busy.value.pids == (77,)


def test_trap_7_mps_client_counts(h200: Machine) -> None:
    h200.run_process(gpu=0, pid=78, kind="mps")
    with opened(h200) as device, pytest.raises(CardBusy):
        plan(device.read(), Request("enabled"))


def test_failed_list_of_processes_is_an_error(h200: Machine) -> None:
    h200.fail("nvmlDeviceGetComputeRunningProcesses", "UNKNOWN")
    with opened(h200) as device, pytest.raises(NvmlError):
        device.read()


def test_ampere_is_not_written_without_an_allowed_reset() -> None:
    with fake(["A100 40GB"]) as machine:
        with opened(machine) as device:
            plan_ = plan(device.read(), Request("enabled", ({"profile": "1g.5gb"},)))
        assert (plan_.needs, plan_.changed) == ("gpu_reset", False)
        state = bring(machine, on("1g.5gb"))
        assert (state.mode, len(state.layout)) == ("enabled", 1)


def test_impossible_layout_is_refused_before_a_reset() -> None:
    with fake(["A100 40GB"]) as machine, opened(machine) as device, pytest.raises(Refusal, match="does not fit"):
        plan(device.read(), Request("enabled", ({"profile": "7g.40gb", "count": 2},)))


def test_hopper_needs_no_reset_by_field_184(h200: Machine) -> None:
    with opened(h200) as device:
        plan_ = plan(device.read(), Request("enabled"))
    assert (plan_.needs, plan_.mode, plan_.resets) == ("none", "enabled", False)


def test_card_without_profiles_is_planned_once_mig_is_on(h200: Machine) -> None:
    with opened(h200) as device:
        state = device.read()
        blind = State(**{**vars(state), "profiles": type(state.profiles)()})
        plan_ = plan(blind, on("3g.71gb"))
        assert plan_.descriptions() == ["MIG enabled", "the layout, once the card reports its profiles"]
        assert [instance.profile for instance in apply(device, plan_).layout] == ["3g.71gb"]


def test_impossible_layout_switches_mig_off_again(h200: Machine) -> None:
    was = facts(h200)
    with opened(h200) as device:
        state = device.read()
        blind = State(**{**vars(state), "profiles": type(state.profiles)()})
        plan_ = plan(blind, on("3g.71gb", "4g.71gb", "1g.18gb"))
        with pytest.raises(Failed, match="the nearest that fit"):
            apply(device, plan_)
    assert facts(h200) == was


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request("enabled"), "has no MIG: leave it out"),
        (Request(layout=({"profile": "1g.5gb"},)), "has no MIG"),
        (Request("disabled", ({"profile": "1g.5gb"},)), "a GPU with `mode: disabled` has no instances"),
    ],
)
def test_mig_on_a_geforce_is_refused(request_: Request, message: str) -> None:
    with fake(["RTX 4090"]) as machine, opened(machine) as device, pytest.raises(Refusal, match=message):
        plan(device.read(), request_)


def test_geforce_meets_mode_disabled() -> None:
    with fake(["RTX 4090"]) as machine, opened(machine) as device:
        assert not plan(device.read(), Request("disabled")).changed


def test_exclusive_compute_mode_excludes_mig(h200: Machine) -> None:
    h200.set(0, compute_mode=3)
    with opened(h200) as device, pytest.raises(Refusal, match="compute mode exclusive_process"):
        plan(device.read(), Request("enabled"))


def test_layout_with_mig_off_is_refused(h200: Machine) -> None:
    with opened(h200) as device, pytest.raises(Refusal, match="set mode: enabled"):
        plan(device.read(), Request(layout=({"profile": "1g.18gb"},)))


def test_mode_disabled_removes_the_instances(h200: Machine) -> None:
    bring(h200, on("3g.71gb", "1g.18gb"))
    state = bring(h200, Request("disabled"))
    assert (state.mode, state.layout) == ("disabled", ())


def test_compute_instances_are_placed_together(h200: Machine) -> None:
    """Place all at once: one by one, the driver would put 3c at slice 0, and only one of two 2c next to it."""
    state = bring(h200, on({"profile": "7g.141gb", "compute_instances": ["3c", "2c", "2c"]}))
    assert sorted((c.slices, c.start) for c in state.layout[0].compute) == [(2, 0), (2, 2), (3, 4)]


def test_described_gpu_has_the_keys_of_a_result(h200: Machine) -> None:
    gpu = described(bring(h200, on({"profile": "3g.71gb", "start": 4, "compute_instances": ["2c", "1c"]})))
    assert gpu["slots"] == [
        "slot 0: free",
        "slot 1: free",
        "slot 2: free",
        "slot 3: free",
        "slots 4-7: 3g.71gb (2c + 1c)",
    ]
    assert [instance["slices"] for instance in gpu["instances"][0]["compute_instances"]] == [2, 1]

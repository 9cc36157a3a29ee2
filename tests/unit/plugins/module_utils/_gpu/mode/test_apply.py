# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading and writing modes of fake GPUs. Whole requests are in the tests of gpu_mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode import apply
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode import plan as modes
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode.apply import Failed, Host
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode.plan import Change, Plan
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError, Refusal

from harness.fakes import nvml as fake_nvml

# What nvidia-smi of driver 580.159.04 prints on a host with one H100.
LISTED = """\
+-------------------------------------+
| GPU compute policies:               |
| GPU     Name           Value        |
|=====================================|
|   0   Timeslice       Default       |
|  11   Timeslice       Medium        |
+-------------------------------------+
"""


def no_smi(_command: list[str]) -> tuple[int, str, str]:
    return 127, "", "not found"


def test_time_slices_are_read_from_the_table_of_nvidia_smi() -> None:
    assert apply.parse_policies(LISTED) == {0: "default", 11: "medium"}
    assert apply.parse_policies("No devices were found\n") == {}


def too_old(_command: list[str]) -> tuple[int, str, str]:
    return 2, "", "Invalid combination of input arguments"


def test_without_nvidia_smi_time_slices_are_refused(tmp_path: Path) -> None:
    with fake_nvml.fake(["H100"]), Nvml() as nvml:
        host = Host(nvml, Tree(str(tmp_path)), no_smi)
        with pytest.raises(Refusal, match=r"only nvidia-smi sets time slices, and it cannot be run \(not found\)"):
            host.read(nvml.cards()[0], time_slice=True)


def test_a_card_with_damaged_settings_of_its_own_has_time_slices(tmp_path: Path) -> None:
    damaged = f"{LISTED}WARNING: infoROM is corrupted at gpu 0000:B3:00.0\n"
    with fake_nvml.fake(["H100"]), Nvml() as nvml:
        state = Host(nvml, Tree(str(tmp_path)), lambda _command: (14, damaged, "")).read(
            nvml.cards()[0], time_slice=True
        )
    assert state.time_slice == "default"


def test_old_nvidia_smi_means_no_time_slices(tmp_path: Path) -> None:
    with fake_nvml.fake(["H100"]), Nvml() as nvml:
        state = Host(nvml, Tree(str(tmp_path)), too_old).read(nvml.cards()[0], time_slice=True)
    assert state.time_slice is None
    assert "has no time slices to set" in modes.plan(state, {"time_slice": "long"}, "gpus[0]").problems[0]


def test_nvidia_smi_runs_only_for_time_slices(tmp_path: Path) -> None:
    def refuse(command: list[str]) -> tuple[int, str, str]:
        raise AssertionError(command)

    with fake_nvml.fake(["H100"]), Nvml() as nvml:
        Host(nvml, Tree(str(tmp_path)), refuse).read(nvml.cards()[0], time_slice=False)


@pytest.mark.parametrize("model", fake_nvml.models())
def test_unsupported_settings_of_each_model_are_none(tmp_path: Path, model: str) -> None:
    with fake_nvml.fake([model]) as machine, Nvml() as nvml:
        state = Host(nvml, Tree(str(tmp_path)), no_smi).read(nvml.cards()[0], time_slice=False)
        assert machine.writes == 0
    assert state.compute_mode == "default"
    assert (state.ecc is None) == (state.ecc_current is None)
    assert modes.supports(state, "locked_gpu_clocks") is (model != "GTX 1080")
    low, high = state.power_range or (0, 0)
    assert 0 < low <= (state.power_limit or 0) <= high


def test_card_lost_during_a_read_is_an_error(tmp_path: Path) -> None:
    with fake_nvml.fake(["H100"]) as machine, Nvml() as nvml:
        host = Host(nvml, Tree(str(tmp_path)), no_smi)
        machine.fail("nvmlDeviceGetComputeMode", "GPU_IS_LOST")
        with pytest.raises(NvmlError, match="GPU_IS_LOST"):
            host.read(nvml.cards()[0], time_slice=False)


def test_old_mode_without_support_is_reported_as_not_restored(tmp_path: Path) -> None:
    with fake_nvml.fake(["H100"]) as machine, Nvml() as nvml:
        host = Host(nvml, Tree(str(tmp_path)), no_smi)
        card = nvml.cards()[0]
        # Exclusive for a thread, of old drivers.
        machine.set(0, compute_mode=1)
        state = host.read(card, time_slice=False)
        assert state.compute_mode == "1"
        machine.fail("nvmlDeviceSetPowerManagementLimit", "UNKNOWN")
        plan = Plan(state, {}, [Change("compute_mode", "1", "prohibited"), Change("power_limit", 700000, 300000)])
        with pytest.raises(Failed) as caught:
            host.carry_out([plan], {card.uuid: card})
    assert caught.value.cause["nvml_error"] == "UNKNOWN"
    assert [text.partition(" (nvml")[0] for text in caught.value.left] == [
        f"NVIDIA H100 80GB HBM3 ({card.uuid}): compute_mode 1"
    ]


def test_failed_lock_is_not_recorded(tmp_path: Path) -> None:
    with fake_nvml.fake(["H100"]) as machine, Nvml() as nvml:
        host = Host(nvml, Tree(str(tmp_path)), no_smi)
        card = nvml.cards()[0]
        machine.fail("nvmlDeviceSetGpuLockedClocks", "NO_PERMISSION")
        plan = Plan(host.read(card, time_slice=False), {}, [Change("locked_gpu_clocks", "unlocked", [1900, 1950])])
        with pytest.raises(Failed, match="NO_PERMISSION"):
            host.carry_out([plan], {card.uuid: card})
        assert Host(nvml, Tree(str(tmp_path)), no_smi).read(card, time_slice=False).locked_gpu_clocks == "unlocked"


@pytest.mark.parametrize("wanted", ["unlocked", [1200, 1500]])
def test_clocks_of_a_killed_run_are_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: Any) -> None:
    def killed(tree: Tree, gpus: dict[str, Any]) -> None:
        if "gpu.0.lock.graphics" in machine.state():
            raise KeyboardInterrupt
        write(tree, gpus)

    write = apply.record.write_locked
    with fake_nvml.fake(["H100"]) as machine, Nvml() as nvml:
        host = Host(nvml, Tree(str(tmp_path)), no_smi)
        card = nvml.cards()[0]
        monkeypatch.setattr(apply.record, "write_locked", killed)
        plan = Plan(host.read(card, time_slice=False), {}, [Change("locked_gpu_clocks", "unlocked", [1900, 1950])])
        with pytest.raises(KeyboardInterrupt):
            host.carry_out([plan], {card.uuid: card})
        monkeypatch.setattr(apply.record, "write_locked", write)
        host = Host(nvml, Tree(str(tmp_path)), no_smi)
        plan = modes.plan(host.read(card, time_slice=False), {"locked_gpu_clocks": wanted}, "gpus[0]")
        assert [change.before for change in plan.changes] == ["unknown"]
        host.carry_out([plan], {card.uuid: card})
        assert machine.state().get("gpu.0.lock.graphics") == (None if wanted == "unlocked" else "1200 1500")
        now = Host(nvml, Tree(str(tmp_path)), no_smi).read(card, time_slice=False)
        assert now.locked_gpu_clocks == wanted


def test_unknown_clocks_are_reported_as_not_restored(tmp_path: Path) -> None:
    with fake_nvml.fake(["H100"]) as machine, Nvml() as nvml:
        host = Host(nvml, Tree(str(tmp_path)), no_smi)
        card = nvml.cards()[0]
        machine.fail("nvmlDeviceSetAccountingMode", "UNKNOWN")
        changes = [Change("locked_gpu_clocks", "unknown", [1900, 1950]), Change("accounting", False, True)]
        plan = Plan(host.read(card, time_slice=False), {}, changes)
        with pytest.raises(Failed) as caught:
            host.carry_out([plan], {card.uuid: card})
    assert caught.value.left == [f"NVIDIA H100 80GB HBM3 ({card.uuid}): locked_gpu_clocks unknown"]

# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of every fake model, with the special cases of NVML."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import state
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card, Nvml

from harness.fakes import nvml as fake_nvml

Facts = Any


def read(tree: Tree | None = None, gpu: int = 0) -> Facts:
    with Nvml() as nvml:
        return state.read_card(nvml, nvml.cards()[gpu], tree)


def keys(facts: Any, path: str = "") -> Iterator[str]:
    """Return the names of all facts that a card without values has, too."""
    if isinstance(facts, dict):
        for key, value in facts.items():
            yield f"{path}{key}"
            yield from keys(value, f"{path}{key}.")


@pytest.mark.parametrize("model", fake_nvml.models())
def test_facts_of_every_model_are_read_without_errors(model: str) -> None:
    with fake_nvml.fake([model]) as machine:
        facts = read()
        assert machine.writes == 0
    assert (facts["unreadable"], facts["problem"]) == ([], None)
    assert facts["uuid"] == machine.gpus[0].uuid
    assert facts["memory"]["total_bytes"] > 2**30
    assert facts["compute"]["sm_count"] > 10
    json.dumps(facts)


def test_card_has_its_identity_and_peaks() -> None:
    with fake_nvml.fake(["H200"]):
        facts = read()
    assert facts["pci_address"] == "0000:41:00.0"
    assert facts["pci_device_id"] == "10de:2335"
    assert (facts["brand"], facts["architecture"], facts["compute_capability"]) == ("nvidia", "hopper", "9.0")
    assert facts["compute"]["sm_count"] == 132
    # 132 SMs, 4096 operations a clock, at 1980 MHz; 4.8 TB/s of memory.
    assert facts["compute"]["peak_tflops"]["bf16"] == pytest.approx(1070.5, rel=0.001)
    assert facts["memory"]["bandwidth_gb_s"] == pytest.approx(4814.3, rel=0.001)
    # The binding gives this one text as bytes.
    assert facts["gsp_firmware"] == fake_nvml.DRIVER
    assert (facts["nvlink"]["count"], facts["nvlink"]["active"], facts["nvlink"]["links"][17]["remote"]) == (
        18,
        18,
        "switch",
    )


def test_values_that_a_geforce_lacks_are_null() -> None:
    with fake_nvml.fake(["RTX 4090"]):
        facts = read()
    assert facts["modes"]["ecc"] is facts["modes"]["mig"] is facts["nvlink"] is facts["serial"] is None
    counters = facts["counters"]
    assert counters["remapped_rows"] is counters["retired_pages"] is counters["sram"] is None
    assert counters["ecc_errors"]["aggregate"] == {"corrected": None, "uncorrected": None}
    assert set(counters["nvlink"].values()) == {None}
    assert facts["temperature"]["memory_c"] is None


def test_lost_gpu_has_the_same_keys_and_a_next_step() -> None:
    with fake_nvml.fake(["H200", "H200"]) as machine:
        whole = read()
        machine.lose(0)
        lost, other = read(gpu=0), read(gpu=1)
    assert set(keys(lost)) <= set(keys(whole)) | {
        "problem.nvml_error",
        "problem.function",
        "problem.next_step",
    }
    assert lost.keys() == whole.keys()
    assert lost["problem"]["nvml_error"] == "GPU_IS_LOST"
    assert "reboot" in lost["problem"]["next_step"]
    assert lost["memory"]["total_bytes"] is lost["processes"] is None
    assert (other["problem"], other["power"]["limit_w"]) == (None, 700)


def test_gpu_lost_while_it_is_read_keeps_earlier_values() -> None:
    with fake_nvml.fake(["H200"]) as machine:
        machine.fail("nvmlDeviceGetPowerUsage", "GPU_IS_LOST")
        facts = read()
    assert facts["problem"]["function"] == "nvmlDeviceGetPowerUsage"
    assert facts["memory"]["total_bytes"]
    # Asked later, and would have answered.
    assert facts["temperature"]["gpu_c"] is None


def test_one_failed_value_is_listed_and_the_others_read() -> None:
    with fake_nvml.fake(["H200"]) as machine:
        machine.fail("nvmlDeviceGetPowerUsage", "UNKNOWN")
        facts = read()
    assert facts["power"]["draw_w"] is None
    assert facts["power"]["limit_w"] == 700
    assert [row["nvml_error"] for row in facts["unreadable"]] == ["UNKNOWN"]
    assert facts["problem"] is None


def test_gpu_without_a_driver_has_the_same_keys() -> None:
    with fake_nvml.fake(["GTX 1080"]):
        whole = read()
    assert state.read_card(None, Card(None, 0)).keys() == whole.keys()


def test_reserved_memory_is_not_used_memory() -> None:
    with fake_nvml.fake(["H200"]) as machine:
        machine.run_process(0, 4242, memory_mib=512)
        memory = read()["memory"]
        machine.fail("nvmlDeviceGetMemoryInfo_v2", "FUNCTION_NOT_FOUND")
        old = read()["memory"]
    assert (memory["used_bytes"], memory["reserved_bytes"]) == (512 << 20, 644939776)
    # A driver without version 2 does not separate them: how much is reserved is not known, and not 0.
    assert (old["used_bytes"], old["reserved_bytes"]) == ((512 << 20) + 644939776, None)


def test_idle_pcie_link_has_current_and_highest_generation() -> None:
    with fake_nvml.fake(["RTX 4090"]):
        pcie = read()["pcie"]
    assert (pcie["current_generation"], pcie["max_generation"]) == (1, 4)


@pytest.mark.parametrize("margin", [0, -3])
def test_temperature_margin_is_allowed_to_be_0_or_less(margin: int) -> None:
    with fake_nvml.fake(["H100"]) as machine:
        machine.set(0, temperature__margin=margin)
        assert read()["temperature"]["margin_c"] == margin


@pytest.mark.parametrize(("bits", "names"), [(0, []), (0x1, ["idle"]), (0x84, ["sw_power_cap", "power_brake"])])
def test_reasons_for_low_clocks_have_names(bits: int, names: list[str]) -> None:
    with fake_nvml.fake(["H100"]) as machine:
        machine.set(0, events__current=bits)
        assert read()["clocks"]["event_reasons"] == names


def test_remapped_rows_are_null_inside_mig() -> None:
    with fake_nvml.fake(["A100 40GB"]) as machine:
        machine.fail("nvmlDeviceGetRemappedRows", "NOT_SUPPORTED")
        assert read()["counters"]["remapped_rows"] is None


def test_mig_devices_have_profile_placement_and_memory() -> None:
    with fake_nvml.fake(["H100"]), Nvml() as nvml:
        card = nvml.cards()[0]
        nvml.call("nvmlDeviceSetMigMode", card.handle, 1)
        # Profile 19 is 1g.10gb, its compute instance takes all of it.
        instances = [nvml.call("nvmlDeviceCreateGpuInstance", card.handle, 19) for _number in range(3)]
        for instance in instances:
            nvml.call("nvmlGpuInstanceCreateComputeInstance", instance, 0)
        before = state.read_card(nvml, card)["mig_devices"]
        gone = nvml.call("nvmlGpuInstanceGetInfo", instances[0]).id
        nvml.call("nvmlComputeInstanceDestroy", nvml.call("nvmlGpuInstanceGetComputeInstanceById", instances[0], 0))
        nvml.call("nvmlGpuInstanceDestroy", instances[0])
        facts = state.read_card(nvml, card)
    assert [row["profile"] for row in before] == ["1g.10gb"] * 3
    remaining = {row["uuid"] for row in before if row["gpu_instance_id"] != gone}
    assert {row["uuid"] for row in facts["mig_devices"]} == remaining
    assert all(
        row["placement"] == {**(row["placement"] or {}), "size": 1} and row["sm_count"] == 16
        for row in facts["mig_devices"]
    )
    assert facts["sharing"] == {"mode": "mig", "mps_servers": [], "slices": 2}


def test_mps_server_means_sharing_by_mps(tmp_path: Path) -> None:
    process = tmp_path / "proc/911"
    process.mkdir(parents=True)
    (process / "status").write_text("Uid:\t0\t0\t0\t0\n")
    (process / "cmdline").write_text("/usr/bin/nvidia-cuda-mps-server\0")
    with fake_nvml.fake(["H100"]) as machine:
        machine.run_process(0, 911, kind="compute")
        machine.run_process(0, 4242, kind="mps")
        facts = read(Tree(str(tmp_path)))
    assert facts["sharing"] == {"mode": "mps", "mps_servers": [911], "slices": 0}


def test_no_value_is_read_twice() -> None:
    calls: Counter[tuple[Any, ...]] = Counter()

    class Counting(Nvml):
        def call(self, function: str, *arguments: Any) -> Any:
            calls[(function, *(getattr(argument, "value", None) or str(argument) for argument in arguments))] += 1
            return super().call(function, *arguments)

    with fake_nvml.fake(["H200"]), Counting() as nvml:
        state.read_card(nvml, nvml.cards()[0])
    assert [question for question, times in calls.items() if times > 1] == []
    # Deprecated, and gone with CUDA 14.
    assert not [function for function, *_arguments in calls if "ApplicationsClock" in function]
    # Of which 54 for the ends of 18 links.
    assert sum(calls.values()) < 140


def test_numa_node_and_processors_come_from_the_kernel(tmp_path: Path) -> None:
    device = tmp_path / "sys/bus/pci/devices/0000:41:00.0"
    device.mkdir(parents=True)
    (device / "numa_node").write_text("1\n")
    (device / "local_cpulist").write_text("16-31\n")
    with fake_nvml.fake(["H100"]):
        facts = read(Tree(str(tmp_path)))
        (device / "numa_node").write_text("-1\n")
        without = read(Tree(str(tmp_path)))
    assert (facts["numa_node"], facts["cpu_affinity"]) == (1, "16-31")
    assert without["numa_node"] is None

# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts that only gpu_info needs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import details
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card, Nvml

from harness.fakes import nvml as fake_nvml

Facts = Any


def read(gpu: int = 0) -> Facts:
    with Nvml() as nvml:
        return details.read_card(nvml, nvml.cards()[gpu])


@pytest.mark.parametrize("model", fake_nvml.models())
def test_details_of_every_model_are_read_without_errors(model: str) -> None:
    with fake_nvml.fake([model]):
        facts = read()
    assert (facts["unreadable"], facts["problem"]) == ([], None)
    json.dumps(facts)


def test_h200_has_all_details() -> None:
    with fake_nvml.fake(["H200"]) as machine:
        machine.set(0, utilization__encoder=7, violation__power=2_000_000, **{"ecc.1.0.2": 3, "remapper.none": 1})
        facts = read()
    assert facts["utilization"]["encoder_percent"] == 7
    assert facts["pcie"]["received_kb_s"] > 0
    assert facts["power"]["energy_j"] > 1000
    assert facts["memory"]["bar1"]["total_bytes"] == 256 << 30
    assert facts["clocks"]["application_mhz"] == {"graphics": 1980, "memory": 3201}
    counters = facts["counters"]
    assert counters["throttled"]["sw_power_cap_ns"] == 2_000_000
    assert counters["ecc_locations"]["aggregate"]["dram"] == {"corrected": 3, "uncorrected": 0}
    assert counters["ecc_locations"]["aggregate"]["l1_cache"] is None
    assert counters["remapped_rows"]["banks"] == {"max": 3072, "high": 0, "partial": 0, "low": 0, "none": 1}
    assert counters["sram"]["sources"] == {"l2": 0, "sm": 0, "pcie": 0, "microcontroller": 0, "other": 0}
    # The driver of the recording reports no traffic of NVLink.
    assert facts["nvlink"]["sent_kib"] is None


def test_nvlink_traffic_where_the_driver_counts_it() -> None:
    with fake_nvml.fake(["H200"]) as machine:
        machine.set(0, **{"field.138": "3 4096", "field.139": "3 1024"})
        nvlink = read()["nvlink"]
    assert (nvlink["sent_kib"], nvlink["received_kib"]) == (4096, 1024)


def test_use_by_process_is_null_for_an_idle_one() -> None:
    with fake_nvml.fake(["H200"]) as machine:
        for pid in (4242, 4243):
            machine.run_process(0, pid)
        machine.use_process(0, 4242, 87, 31, 0, 0)
        busy, idle = read()["processes"]
    assert (busy["sm_percent"], busy["memory_percent"], busy["decoder_percent"]) == (87, 31, 0)
    assert (idle["sm_percent"], idle["decoder_percent"]) == (None, None)


def test_details_that_a_geforce_lacks_are_null() -> None:
    with fake_nvml.fake(["GTX 1080"]) as machine:
        machine.set(0, **{"power.energy": None, "bar1.total": None, "pcie.throughput.0": None})
        facts = read()
    assert facts["counters"]["remapped_rows"] is facts["counters"]["sram"] is None
    assert facts["power"]["energy_j"] is facts["memory"]["bar1"] is facts["pcie"]["sent_kb_s"] is None
    assert set(facts["counters"]["ecc_locations"]["volatile"].values()) == {None}


def test_a_lost_gpu_and_one_without_a_driver_have_the_same_keys() -> None:
    def keys(facts: Facts) -> set[str]:
        return {f"{name}.{key}" for name in ("memory", "pcie", "power", "clocks", "utilization") for key in facts[name]}

    with fake_nvml.fake(["H200"]) as machine:
        whole = read()
        machine.lose(0)
        lost = read()
    assert keys(lost) == keys(whole) == keys(details.read_card(None, Card(None, 0)))
    assert lost["problem"]["nvml_error"] == "GPU_IS_LOST"

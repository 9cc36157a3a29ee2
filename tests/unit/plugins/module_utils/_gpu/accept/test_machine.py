# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs of one machine together: memory, load, and links."""

from __future__ import annotations

from typing import Any, cast

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import machine
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.workers import Outcome
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError
from ansible_collections.rigwright.workstation.plugins.plugin_utils._finding import parse

from tests.unit.support.gpu.reports import card, sample

Facts = Any


def gpu(index: int, links: int = 18, remote: str = "switch", address: str | None = None) -> Facts:
    rows = [
        {"active": True, "speed_gb_s": 26.5, "remote": remote, "remote_pci_address": address}
        for _number in range(links)
    ]
    return card(
        index=index, uuid=f"GPU-{index}", pci_address=f"0000:4{index}:00.0", nvlink={"links": rows} if links else None
    )


def outcome(*events: Facts, status: int | None = 0, **facts: Any) -> Outcome:
    return Outcome(status=status, events=list(events), **facts)


def pairs(count: int, **other: Facts) -> Outcome:
    """Return the outcome for all pairs; `pairs(4, **{"0-1": {"gb_s": 10}})` changes one."""
    ways = [(source, target) for source in range(count) for target in range(count) if source != target]
    usual = {"event": "pair", "gb_s": 400.0, "latency_us": 9.0, "peer_access": True, "wrong": 0}
    return outcome(
        *(
            {**usual, "source": source, "target": target, **other.get(f"{source}-{target}", {})}
            for source, target in ways
        ),
    )


def reduced(rank: int, **facts: Any) -> Outcome:
    event = {"event": "all_reduce", "gb_s": 400.0, "bytes": 1 << 29, "wrong": 0, "nccl": "2.28.9", "ranks": 4, **facts}
    return outcome({"event": "meeting", "rank": rank}, event)


def links(cards: list[Facts], pair_outcome: Outcome, outcomes: list[Outcome] | None = None) -> Facts:
    return machine.links(cards, outcomes or [reduced(number) for number in range(len(cards))], pair_outcome)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_a_healthy_machine_passes_with_any_number_of_gpus(count: int) -> None:
    found = links([gpu(index) for index in range(count)], pairs(count))

    assert (found["verdict"], found["problems"], len(found["pairs"])) == ("passed", [], count * (count - 1))
    assert (found["pairs"][0]["link"], found["pairs"][0]["ceiling"]) == ("nvlink", 477.0)
    assert [parse(row)["status"] for row in machine.findings(found)] == ["pass", "pass"]


@pytest.mark.parametrize(
    ("other", "verdict", "evidence"),
    [
        ({"wrong": 1}, "hardware", "GPU 1 (GPU-1) to GPU 0 (GPU-0): the copy differs from its source"),
        ({"gb_s": 200.0}, "hardware", "200 of 477 GB/s, 42%; 60% is the least"),
        ({"gb_s": 300.0}, "slower", "GPU 1 to 0: 300 GB/s, 400 is the median"),
        ({"gb_s": float("nan")}, "hardware", "nan of 477 GB/s"),
        ({"peer_access": False, "gb_s": 30.0}, "hardware", "NVLink is active, and CUDA gives no access"),
    ],
)
def test_slower_pair_is_named(other: Facts, verdict: str, evidence: str) -> None:
    found = links([gpu(index) for index in range(4)], pairs(4, **{"1-0": other}))

    assert found["verdict"] == verdict
    assert evidence in found["problems"][0]["evidence"]


def test_very_slow_pcie_pair_is_named() -> None:
    found = links(
        [gpu(index, links=0) for index in range(2)], pairs(2, **{"0-1": {"gb_s": 0.4}, "1-0": {"gb_s": 20.0}})
    )

    assert [row["evidence"] for row in found["problems"]] == [
        "GPU 0 (GPU-0) to GPU 1 (GPU-1): 0.4 of 63 GB/s, 0.6%; 10% is the least"
    ]
    assert machine.findings(found)[0]["status"] == "warn"


def test_unmeasured_pairs_do_not_pass() -> None:
    found = links([gpu(0), gpu(1)], outcome({"event": "did", "step": "pairs"}))

    assert (found["verdict"], machine.findings(found)[0]["status"]) == ("not_measured", "warn")
    assert found["problems"][0]["evidence"] == "0 of 2 copies were measured"


def test_pcie_pair_without_access_is_no_problem() -> None:
    slow = {f"{row}-{two}": {"peer_access": False, "gb_s": 20.0} for row in range(2) for two in range(2) if row != two}
    found = links([gpu(index, links=0) for index in range(2)], pairs(2, **slow))

    assert (found["verdict"], found["pairs"][0]["link"], found["pairs"][0]["ceiling"]) == ("passed", "pcie", 63.0)


def test_ceiling_of_a_bridge_is_that_of_its_links() -> None:
    row = gpu(0, 4, "gpu", "0000:41:00.0")
    assert machine.link_ceiling(row, gpu(1, 4, "gpu", "0000:40:00.0")) == ("nvlink", 106.0)
    assert machine.link_ceiling(row, gpu(2, 0))[0] == "pcie"


def test_hanging_copy_names_both_gpus() -> None:
    ended = outcome({"event": "trying", "source": 1, "target": 2}, status=None, hung="pairs")
    found = links([gpu(index) for index in range(3)], ended)

    assert found["verdict"] == "hardware"
    assert "GPU 1 (GPU-1) to GPU 2 (GPU-2): " in found["problems"][0]["evidence"]


def test_wrong_sum_names_its_gpu() -> None:
    outcomes = [reduced(0), reduced(1, wrong=7)]
    found = links([gpu(0), gpu(1)], pairs(2), outcomes)

    assert found["problems"][0]["evidence"] == "GPU 1 (GPU-1): 7 numbers of the sum are wrong"
    assert [row["status"] for row in machine.findings(found)] == ["pass", "fail"]


def test_slowest_gpu_counts_in_an_all_reduce() -> None:
    found = links([gpu(0), gpu(1)], pairs(2), [reduced(0), reduced(1, gb_s=350.0)])

    assert (found["all_reduce"]["gb_s"], found["all_reduce"]["efficiency"]) == (350, pytest.approx(0.734, abs=0.001))


def test_unmeasured_test_is_skipped_with_the_reason() -> None:
    missing = outcome({"event": "skipped", "test": "all_reduce", "words": "built without NCCL"})
    found = machine.findings(links([gpu(0), gpu(1)], pairs(2), [missing, missing]))

    assert [(row["status"], row["evidence"]) for row in found][1] == ("skip", "built without NCCL")
    assert [row["status"] for row in machine.findings(machine.links([gpu(0)], [outcome()], None))] == ["skip", "skip"]


# Memory and load


def filled(**facts: Any) -> Outcome:
    usual = {"free_bytes": 1000, "total_bytes": 1100, "tested_bytes": 900, "patterns": ["zeros"], "seconds": 2}
    return outcome({"event": "memory", **usual, "gb_s": 900.0, "wrong": 0, "first": None, **facts})


def test_memory_test_has_its_share() -> None:
    facts, problems, notes = machine.memory(filled())

    assert facts is not None and (facts["share"], problems, notes) == (0.9, [], [])


def test_less_memory_than_was_free_is_noted() -> None:
    assert machine.memory(filled(tested_bytes=500))[2] == [
        "memory: 50% of the free memory could be allocated, and was tested"
    ]


def test_omitted_memory_test_is_null() -> None:
    assert machine.memory(outcome()) == (None, [], [])


def loaded(**values: float) -> Outcome:
    windows = [
        {"event": "together", "test": test, "from": 0.0, "to": 9.0, "value": value, "unit": "tflops", "wrong": 0}
        for test, value in {"matmul_bf16": 780.0, "h2d": 54.0, **values}.items()
    ]
    return Outcome(status=0, events=windows, samples=[sample(number / 10) for number in range(90)])


ALONE: Facts = {"matmul_bf16": {"value": 780.0}, "h2d": {"value": 54.0}}


@pytest.mark.parametrize(
    ("values", "verdicts", "notes"),
    [
        ({}, [], 0),
        ({"matmul_bf16": 690.0}, ["slower"], 0),
        ({"matmul_bf16": 600.0}, ["hardware", "slower"], 0),
        ({"h2d": 25.0}, [], 1),
        ({"matmul_bf16": float("nan")}, ["hardware", "slower"], 0),
    ],
)
def test_card_slower_with_all_loaded_is_reported(values: dict[str, float], verdicts: list[str], notes: int) -> None:
    facts, problems, ended = machine.together(card(), ALONE, loaded(**values))

    assert ([row["verdict"] for row in problems], len(ended)) == (verdicts, notes)
    assert facts["matmul_bf16"]["alone"] == 780


def test_power_brake_with_all_loaded_is_reported() -> None:
    braked = loaded()
    braked.samples[:] = [sample(number / 10, reasons=["power_brake"]) for number in range(90)]

    problems = machine.together(card(), ALONE, braked)[1]

    assert {(row["verdict"], row["test"]) for row in problems} >= {("power", "matmul_bf16, all GPUs together")}


@pytest.mark.parametrize(
    ("ended", "evidence"),
    [
        (outcome(status=None, hung="memory"), "it hangs"),
        (outcome(status=None, lost=NvmlError(15, "f")), "GPU_IS_LOST"),
        (
            outcome({"event": "failed", "step": "memory", "words": "CUDA error: uncorrectable ECC"}, status=4),
            "uncorrectable ECC",
        ),
        (outcome(status=-9, output="Killed"), "status -9: Killed"),
    ],
)
def test_program_that_fails_later_is_a_problem(ended: Outcome, evidence: str) -> None:
    found = machine.later_problem(ended)

    assert found is not None and found["verdict"] == "hardware"
    assert evidence in found["evidence"]


def test_step_without_figures_is_not_measured() -> None:
    done = outcome({"event": "did", "step": "memory"}, {"event": "did", "step": "together"})

    found = machine.unmeasured_steps(done, cast(Any, {"memory_share": 0.9}))
    assert [(row["verdict"], row["test"]) for row in found] == [
        ("not_measured", "memory"),
        ("not_measured", "all GPUs together"),
    ]
    assert machine.unmeasured_steps(outcome(), cast(Any, {"memory_share": 0})) == []


def test_finished_program_is_no_problem() -> None:
    assert machine.later_problem(outcome()) is None

# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on windows and samples of healthy and broken cards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import compare
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import verdict as accept
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.xid_log import Xid
from ansible_collections.rigwright.workstation.plugins.plugin_utils._finding import parse

from tests.unit.support.gpu.reports import COUNTERS, HEALTHY, REQUEST, card, events, samples

Facts = Any


def report(
    values: dict[str, float] | None = None,
    after: Facts | None = None,
    xids: Any = (),
    facts: Facts | None = None,
    **changes: Any,
) -> Facts:
    """Return the report of a card. *facts* change the card, *changes* its samples, *after* the counters at the end."""
    before = card(**(facts or {}))
    ended: Any = {**before, "counters": {**before["counters"], **(after or {})}}
    return accept.report(before, ended, REQUEST, events(**(values or {})), samples(**changes), xids)


def evidence(found: Facts) -> list[tuple[str, str]]:
    return [(row["verdict"], row["test"]) for row in found["problems"]]


# Ceilings


def test_healthy_card_passes_with_efficiencies():
    found = report()

    assert (found["verdict"], found["problems"], found["notes"]) == ("passed", [], [])
    # 132 multiprocessors x 4096 x 1700 MHz = 919.1 TFLOPS; 2 x 3201 MHz x 6016 bit = 4814.3 GB/s; 16 lanes of 3.938 GB/s
    found_ceilings = [found["tests"][test]["ceiling"] for test in ("matmul_bf16", "copy", "h2d")]
    assert found_ceilings == pytest.approx([919.14, 4814.3, 63.0], rel=1e-3)
    assert found["tests"]["matmul_bf16"]["efficiency"] == pytest.approx(780 / 919.142, abs=1e-4)


def test_power_cap_alone_is_no_problem():
    """Pass a card at its power limit: at full load a card of 700 W reaches it by design."""
    assert report(reasons=["sw_power_cap"], clock_mhz=1500)["verdict"] == "passed"


def test_a_low_clock_with_heat_is_cooling_and_not_hardware():
    found = report(
        {"matmul_bf16": 520, "matmul_fp16": 520},
        clock_mhz=1100,
        temperature_c=88,
        reasons=["sw_thermal", "sw_power_cap"],
    )

    assert found["verdict"] == "cooling"
    assert "heat in 100% of the samples, at 1100 MHz and 88 C" in found["problems"][0]["evidence"]
    assert "airflow" in found["problems"][0]["next_step"]


def test_a_low_clock_with_the_power_brake_is_the_power_supply():
    found = report({"matmul_bf16": 400, "matmul_fp16": 400}, clock_mhz=900, reasons=["hw_slowdown", "power_brake"])

    assert found["verdict"] == "power"
    assert "power supply" in found["problems"][0]["next_step"]


def test_hardware_slowdown_without_a_reason_is_the_power_supply():
    found = report({"matmul_bf16": 158, "matmul_fp16": 158}, clock_mhz=345, reasons=["hw_slowdown"])

    assert (found["verdict"], compare.plan_baseline(None, found, "keep", "day")) == ("power", None)
    assert "without a reason in 100% of the samples, at 345 MHz" in found["problems"][0]["evidence"]


@pytest.mark.parametrize(
    ("values", "clocks", "test"),
    [
        ({"matmul_bf16": 158, "matmul_fp16": 158}, {"clock_mhz": 345, "reasons": []}, "matmul_bf16"),
        ({"matmul_bf16": 158, "matmul_fp16": 158}, {"clock_mhz": 345, "reasons": None}, "matmul_bf16"),
        ({"copy": 540}, {"memory_clock_mhz": 405}, "copy"),
    ],
)
def test_stuck_clock_gets_no_baseline(values: dict[str, float], clocks: Facts, test: str):
    found = report(values, **clocks)

    assert (found["verdict"], compare.plan_baseline(None, found, "renew", "day")) == ("slower", None)
    assert found["problems"][0]["test"] == test
    assert "in 100% of the samples, and the card names no reason" in found["problems"][0]["evidence"]


@pytest.mark.parametrize("reason", ["applications_clocks", "sw_power_cap"])
def test_low_clock_with_a_reason_is_no_problem(reason: str):
    assert report({"matmul_bf16": 158, "matmul_fp16": 158}, clock_mhz=345, reasons=[reason])["problems"] == []


def test_locked_clock_is_noted():
    clocks = {"max_mhz": {"sm": 1980, "memory": 3201}, "locked_mhz": {"gpu": [345, 345], "memory": None}}
    found = report({"matmul_bf16": 158, "matmul_fp16": 158}, facts={"clocks": clocks}, clock_mhz=345, reasons=[])

    assert found["verdict"] == "passed"
    assert "matmul_bf16: at 345 of 1980 MHz in 100% of the samples: gpu_mode has locked this clock" in found["notes"]


def test_low_efficiency_at_a_good_clock_is_hardware():
    found = report({"matmul_bf16": 640})

    assert evidence(found) == [("hardware", "matmul_bf16")]
    assert "640 of 919.14 tflops, 70%; 72% is the least" in found["problems"][0]["evidence"]


def test_heat_in_few_samples_is_no_problem():
    rows = samples()
    rows[0]["reasons"] = ["sw_thermal"]
    found = accept.report(card(), card(), REQUEST, events(), rows, [])

    assert found["tests"]["matmul_bf16"]["thermal_share"] == pytest.approx(1 / 30, abs=1e-2)
    assert found["verdict"] == "passed"


@pytest.mark.parametrize(("test", "value"), [("copy", 4080), ("h2d", 46), ("d2h", 46)])
def test_a_slow_memory_and_a_slow_bus_are_found(test: str, value: float):
    assert evidence(report({test: value})) == [("hardware", test)]


def test_slow_link_is_found_despite_its_efficiency():
    found = report({"h2d": 27, "d2h": 27}, pcie_width=8)

    assert evidence(found) == [("hardware", "h2d"), ("hardware", "d2h")]
    assert found["problems"][0]["evidence"] == "PCIe lanes: 8 under load, and card and slot can do 16"
    assert "reseat" in found["problems"][0]["next_step"]


def test_fp32_is_measured_and_not_judged():
    assert report({"matmul_fp32": 10})["verdict"] == "passed"


@pytest.mark.parametrize("test", ["matmul_bf16", "matmul_fp32", "copy", "h2d", "h2d_d2h"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0])
def test_rate_that_is_no_number_is_hardware(test: str, value: float):
    rows = events()
    next(row for row in rows if row["event"] == "window" and row["test"] == test)["value"] = value
    found = accept.report(card(), card(), REQUEST, rows, samples(), [])

    assert evidence(found) == [("hardware", test)]
    assert "a window has no valid rate" in found["problems"][0]["evidence"]


def test_rate_above_its_ceiling_is_not_judged():
    """Judge nothing: an idle clock that was read too late gives a ceiling that is too low."""
    found = report(clock_mhz=345)

    assert found["verdict"] == "passed"
    assert any(note.startswith("matmul_bf16: not judged") for note in found["notes"])


def test_unknown_value_is_null_and_not_judged():
    found = report(
        clock_mhz=None,
        memory_clock_mhz=None,
        power_w=None,
        temperature_c=None,
        reasons=None,
        pcie_generation=None,
        pcie_width=None,
    )

    facts = found["tests"]["matmul_bf16"]
    silent = ("clock_mhz", "power_w", "temperature_c", "thermal_share", "power_brake_share", "ceiling", "efficiency")
    assert [facts[key] for key in silent] == [None] * len(silent)
    assert len([note for note in found["notes"] if "not judged" in note]) == 5


# Defects of other tools


@pytest.mark.parametrize(
    ("name", "facts", "clock", "floor_of_dcgm"),
    [
        ("H200", {}, 3201, 2.333),
        ("A100-40", {"name": "NVIDIA A100-SXM4-40GB", "memory": {"bus_width_bits": 5120}}, 1215, 137.5),
        ("L40", {"name": "NVIDIA L40", "memory": {"bus_width_bits": 384}}, 9001, 49.05),
    ],
)
def test_floor_has_no_wrong_unit_unlike_dcgms(name: str, facts: Facts, clock: int, floor_of_dcgm: float):
    """Fail at half the bandwidth: a card with a tenth of it passes the floors of diag-skus.yaml.in (GB/s here)."""
    memory = facts.get("memory", {"bus_width_bits": 6016})
    full = 2 * clock * memory["bus_width_bits"] / 8 / 1000
    facts = {**facts, "clocks": {"max_mhz": {"sm": 1980, "memory": clock}, "locked_mhz": None}}

    assert report({"copy": full / 2}, facts=facts, memory_clock_mhz=clock)["verdict"] == "hardware"
    assert report({"copy": full * 0.9}, facts=facts, memory_clock_mhz=clock)["verdict"] == "passed"
    assert accept.COPY_FLOOR * full > 8 * floor_of_dcgm


def test_pcie_floor_follows_its_generation():
    """Compare with the generation of the link: DCGM has the floor of generation 3 for generation 5, too."""
    assert report({"h2d": 13, "d2h": 13})["verdict"] == "hardware"
    third = {"pcie": {"max_generation": 3, "max_width": 16}}
    assert report({"h2d": 12.3, "d2h": 12.3}, facts=third, pcie_generation=3)["verdict"] == "passed"


def test_a_check_that_reads_nothing_does_not_pass():
    """Report nothing without windows: GCP's test sums a missing column, and so never fails."""
    nothing = SimpleNamespace(status=0, events=[{"event": "started"}], output="")

    assert accept.failure(nothing, "python3") is not None


def test_fp8_is_allowed_a_larger_error():
    sums = {"matmul_fp8": {"error": 0.05}, "matmul_bf16": {"error": 0.05}}

    assert [row["test"] for row in accept.judge_results(sums)] == ["matmul_bf16"]


def test_skipped_test_is_noted_and_has_not_passed():
    skipped = {"event": "skipped", "test": "matmul_fp8", "words": "no attribute '_scaled_mm'"}
    found = accept.report(
        card(), card(), REQUEST, [*(row for row in events() if row.get("test") != "matmul_fp8"), skipped], samples(), []
    )

    assert "matmul_fp8" not in found["tests"]
    assert found["notes"] == ["matmul_fp8: not measured: no attribute '_scaled_mm'"]


@pytest.mark.parametrize("missing", [{"matmul_bf16"}, {"copy"}, set(HEALTHY)])
def test_test_without_windows_is_not_measured(missing: set[str]):
    rows = [row for row in events() if row["event"] != "window" or row["test"] not in missing]
    found = accept.report(card(), card(), REQUEST, rows, samples(), [])

    assert evidence(found) == [("not_measured", test) for test in HEALTHY if test in missing]
    assert found["problems"][0]["evidence"] == "0 of 3 windows were measured"
    assert (accept.finding(found)["status"], compare.plan_baseline(None, found, "renew", "day")) == ("warn", None)


def test_unmeasured_test_hides_no_failure():
    rows = [row for row in events() if row.get("test") != "copy"]
    found = accept.report(card(), card(), REQUEST, rows, samples(), [Xid(79, "0000:41:00", text="gone").as_result()])

    assert (found["verdict"], accept.finding(found)["status"]) == ("not_measured", "fail")


# Results and counters


def test_wrong_number_is_a_hardware_problem():
    found = events()
    found[2]["wrong"] = 1

    facts = accept.report(card(), card(), REQUEST, found, samples(), [])

    assert facts["verdict"] == "hardware"
    assert facts["problems"][0]["evidence"] == "1 results were not the same as before"


@pytest.mark.parametrize("error", [0.3, float("nan"), float("inf")])
def test_always_wrong_product_is_found(error: float):
    found = events()
    found[1]["error"] = error

    assert evidence(accept.report(card(), card(), REQUEST, found, samples(), [])) == [("hardware", "matmul_bf16")]


def test_a_wrong_result_of_the_burn_in_is_found():
    found = [
        *events(),
        {"event": "burn_in", "test": "copy", "wrong": 1, "value": 1, "from": 0, "to": 1, "unit": "gb_s"},
    ]

    facts = accept.report(card(), card(), REQUEST, found, samples(), [])

    assert (facts["burn_in_windows"], evidence(facts)) == (1, [("hardware", "burn_in")])


@pytest.mark.parametrize("path", accept.GRAVE, ids=".".join)
def test_rising_grave_counter_is_a_problem(path: tuple[str, ...]):
    before, after = card(), card()
    if path[0] == "retired_pages":
        before["counters"]["retired_pages"] = {"single_bit": 0, "double_bit": 0, "pending": False}
        after["counters"]["retired_pages"] = {"single_bit": 0, "double_bit": 0, "pending": False}
    place = after["counters"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] += 1

    problems, _notes = accept.judge_counters(before["counters"], after["counters"], [])

    assert [row["evidence"] for row in problems] == [f"{'.'.join(path)} rose by 1"]


def test_old_errors_do_not_count():
    old = {"remapped_rows": {"correctable": 4, "uncorrectable": 2, "pending": False, "failure": False}}

    assert accept.judge_counters(COUNTERS | old, COUNTERS | old, []) == ([], [])


def test_corrected_errors_are_notes():
    after = {"pcie": {**COUNTERS["pcie"], "replays": 5}}

    assert report(after=after)["notes"] == ["pcie.replays rose by 2, corrected"]


def test_missing_counter_is_no_problem():
    few: Any = {"ecc_errors": None, "pcie": {}}
    problems, _notes = accept.judge_counters(few, few, [])

    assert problems == []


def test_new_xid_and_recovery_action_are_problems():
    found = report(after={"recovery_action": "reset"}, xids=[{"code": 79, "text": "GPU has fallen off the bus"}])

    assert [row["evidence"] for row in found["problems"]] == [
        "the driver now asks for reset",
        "Xid 79: GPU has fallen off the bus",
    ]


def test_a_log_that_cannot_be_read_is_noted():
    assert report(xids=None)["notes"] == ["the kernel's log could not be read: Xids are not judged"]


def test_a_lowered_power_limit_is_noted():
    found = report(facts={"power": {"enforced_limit_w": 500, "default_limit_w": 700}})

    assert (found["verdict"], found["notes"]) == ("passed", ["its power is limited to 500 of 700 W"])


# What is no measurement


@pytest.mark.parametrize(
    ("reason", "step"),
    [
        ("no_torch", "name a Python that has PyTorch"),
        ("cpu_build", "built with CUDA"),
        ("no_gpu", "rights of /dev/nvidia*"),
    ],
)
def test_without_pytorch_nothing_passes(reason: str, step: str):
    failed = SimpleNamespace(
        status=3, events=[{"event": "failed", "reason": reason, "words": "words of it"}], output=""
    )

    found = accept.failure(failed, "/opt/python3")

    assert found is not None
    assert found[0] == "/opt/python3: words of it"
    assert step in found[1]
    assert accept.not_measured(card(), *found)["verdict"] == "not_measured"


def test_a_program_that_hangs_or_dies_is_no_measurement():
    died = SimpleNamespace(status=-9, events=events()[:-2], output="Killed")

    assert accept.failure(died, "python3") == (
        "python3 ended with status -9: Killed",
        "read its output, and name a Python that runs here",
    )
    assert accept.failure(SimpleNamespace(status=0, events=events(), output=""), "python3") is None


@pytest.mark.parametrize(
    ("facts", "pids", "evidence"),
    [
        ({"problem": {"nvml_error": "GPU_IS_LOST", "next_step": "reboot"}}, [], "does not answer: GPU_IS_LOST"),
        ({"modes": {"mig": {"current": True}, "compute_mode": "default"}}, [], "divided by MIG"),
        ({"modes": {"mig": None, "compute_mode": "prohibited"}}, [], "prohibited"),
        ({}, [4242], "in use by process 4242"),
    ],
)
def test_obstacle_has_evidence_and_next_step(facts: Facts, pids: list[int], evidence: str):
    found = accept.obstacle(card(**facts), pids)

    assert found is not None
    assert evidence in found[0]
    assert found[1]


def test_a_free_card_can_be_measured():
    assert accept.obstacle(card(modes={"mig": None, "compute_mode": "default"}), []) is None


def test_a_report_without_figures_has_the_same_keys():
    assert accept.not_measured(card(), "a", "b").keys() == report().keys()


def test_not_measured_outweighs_everything():
    found = [accept.problem(verdict, "", "x", "y") for verdict in reversed(accept.VERDICTS)]

    assert accept.worst(found) == "not_measured"
    assert accept.worst([]) == "passed"


@pytest.mark.parametrize(
    ("capability", "brand", "dtypes"),
    [
        ("9.0", "nvidia", ["bf16", "fp16", "fp32", "tf32", "fp8", "fp64"]),
        ("8.0", "nvidia", ["bf16", "fp16", "fp32", "tf32", "fp64"]),
        ("7.5", "tesla", ["fp16", "fp32", "fp64"]),
        ("6.1", "geforce", ["fp32", "fp64"]),
        (None, None, ["fp32", "fp64"]),
    ],
)
def test_only_supported_types_are_multiplied(capability: str | None, brand: str | None, dtypes: list[str]):
    assert accept.dtypes_of(card(compute_capability=capability, brand=brand)) == dtypes


def test_the_example_is_as_measured():
    assert set(report()["tests"]) == set(HEALTHY)


@pytest.mark.parametrize(
    ("values", "status", "evidence"),
    [
        ({}, "pass", "NVIDIA H200, passed: matmul_bf16 780 tflops (85%)"),
        ({"copy": 1000}, "fail", "NVIDIA H200, hardware: copy: 1000 of"),
    ],
)
def test_finding_has_figures_or_problems(values: dict[str, float], status: str, evidence: str):
    found = accept.finding(report(values))

    assert parse(found)["status"] == status
    assert found["evidence"].startswith(evidence)


def test_unmeasured_card_is_a_warning_even_when_lost():
    lost = accept.finding(accept.not_measured(card(uuid=None, name=None), "it does not answer: GPU_IS_LOST", "reboot"))

    assert parse(lost) == {
        "id": "gpu_accept.index_0",
        "status": "warn",
        "evidence": "GPU, not_measured: it does not answer: GPU_IS_LOST",
        "remedy": "reboot",
    }

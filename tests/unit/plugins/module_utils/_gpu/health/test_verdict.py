# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on a GPU: each rule, the order of authority, and the mistakes of other tools."""

from __future__ import annotations

import os
from typing import Any, cast

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import verdict as health
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import xid_log as log
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.xid_log import Xid
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import ANSWERS, NvmlError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.support.gpu.cards import ADDRESS, card

CASES = int(os.environ.get("RIGWRIGHT_CASES", "300"))
SLOT = log.normal_address(ADDRESS)


NOTHING: Any = {}
HEALTHY: Any = {"verdict": "PASS", "reasons": []}
DOUBLE_BIT = {"single_bit": 0, "double_bit": 16, "pending": False}


def verdict(signs: Any, *codes: int, **host: Any) -> str:
    return str(health.judge(signs, [Xid(code, SLOT) for code in codes], cast(Any, host))["verdict"])


def reasons(signs: Any, *codes: int) -> dict[str, str]:
    return {
        row["what"]: row["verdict"] for row in health.judge(signs, [Xid(code, SLOT) for code in codes], {})["reasons"]
    }


def test_healthy_card_passes_without_a_reason() -> None:
    assert health.judge(card(), [], {}) == HEALTHY


def test_unknown_card_has_no_reason() -> None:
    assert health.judge(NOTHING, [], {}) == HEALTHY
    unknown: Any = dict.fromkeys(card())
    assert health.judge(unknown, [], {}) == HEALTHY


def test_geforce_without_ecc_and_nvlink_has_no_reason() -> None:
    counters = dict.fromkeys(card()["counters"])
    geforce = card(counters=counters, nvlink=None, temperature={"gpu_c": 60, "memory_c": None, "thresholds_c": {}})
    assert health.judge(geforce, [], {}) == HEALTHY


@pytest.mark.parametrize("row", data.XIDS, ids=lambda row: str(row.code))
def test_each_xid_alone_has_its_verdict(row: data.Xid) -> None:
    # Xid 154 names its action in its text, and says nothing without it.
    assert verdict(card(), row.code) == row.verdict
    (reason,) = health.judge(card(), [Xid(row.code, SLOT)], {})["reasons"]
    assert reason["source"] == row.source and row.name in reason["evidence"]
    assert bool(reason["next_step"]) is (row.verdict != "PASS")


@pytest.mark.parametrize(
    ("signs", "name", "expected"),
    [
        ({"counters__recovery_action": "reset"}, "recovery_action", "RESET_GPU"),
        ({"counters__recovery_action": "reboot"}, "recovery_action", "REBOOT"),
        ({"counters__recovery_action": "drain_p2p"}, "recovery_action", "RESTART_APP"),
        ({"counters__recovery_action": "drain_and_reset"}, "recovery_action", "RESET_GPU"),
        ({"counters__recovery_action": "system_reboot"}, "recovery_action", "REBOOT"),
        ({"counters__recovery_action": "unknown (9)"}, "recovery_action", "RESET_GPU"),
        ({"counters__unrepairable_memory": True}, "unrepairable_memory", "REPLACE"),
        ({"counters__remapped_rows__failure": True}, "row_remap_failure", "REPLACE"),
        ({"counters__remapped_rows__pending": True}, "row_remap_pending", "RESET_GPU"),
        ({"counters__remapped_rows__uncorrectable": 512}, "remapped_rows", "REPLACE"),
        ({"counters__sram__threshold_exceeded": True}, "sram_threshold", "REPLACE"),
        ({"counters__repair_pending__channel": True}, "channel_repair", "RESET_GPU"),
        ({"counters__repair_pending__tpc": True}, "tpc_repair", "RESET_GPU"),
        ({"counters__retired_pages": {"single_bit": 50, "double_bit": 13, "pending": False}}, "retired_pages", "REPLACE"),
        ({"counters__retired_pages": {"single_bit": 0, "double_bit": 1, "pending": True}}, "page_retirement_pending", "RESET_GPU"),
        ({"counters__ecc_errors__volatile__uncorrected": 1}, "uncorrected_errors", "MONITOR"),
        ({"counters__ecc_errors__aggregate__corrected": 20_000_000}, "lifetime_errors", "MONITOR"),
        ({"clocks__event_reasons": ["hw_slowdown", "hw_thermal"]}, "hardware_slowdown", "MONITOR"),
        ({"clocks__event_reasons": ["power_brake"]}, "hardware_slowdown", "MONITOR"),
        ({"temperature__gpu_c": 95}, "gpu_temperature", "MONITOR"),
        ({"temperature__memory_c": 105}, "memory_temperature", "MONITOR"),
        ({"since_last_check": {"seconds": 600, "nvlinks_gone": [1]}}, "nvlink_gone", "RESET_GPU"),
        ({"since_last_check": {"seconds": 60, "pcie_replays": 32}}, "pcie_replays", "MONITOR"),
        ({"since_last_check": {"seconds": 10, "nvlink_crc_errors": 1000}}, "nvlink_crc_errors", "MONITOR"),
        ({"since_last_check": {"seconds": 600, "nvlink_replays": 1}}, "nvlink_replays", "MONITOR"),
        ({"since_last_check": {"seconds": 600, "nvlink_recoveries": 1}}, "nvlink_recoveries", "MONITOR"),
        ({"since_last_check": {"seconds": 600, "hardware_slowdown_s": 360.0}}, "slowdown_share", "MONITOR"),
        ({"returned_xids": [119]}, "xid_119_returned", "REPLACE"),
        ({"shown_by_nvml": False}, "not_shown", "REBOOT"),
        ({"absence": {"what": "missing", "boots": 1}}, "missing", "REBOOT"),
        ({"absence": {"what": "missing", "boots": 2}}, "missing", "REPLACE"),
        ({"absence": {"what": "no_driver", "boots": 1}}, "no_driver", "REBOOT"),
        ({"absence": {"what": "unsupported", "boots": 0}}, "unsupported", "MONITOR"),
        ({"absence": {"what": "no_room", "boots": 0, "bar": 1}}, "no_room", "MONITOR"),
        ({"counters__inforom_valid": False}, "inforom_corrupted", "REBOOT"),
        ({"counters__remapped_rows__banks__none": 1}, "banks_without_spare_rows", "MONITOR"),
        ({"counters__retired_pages": DOUBLE_BIT, "double_bit_pages_in_a_week": 2}, "double_bit_pages", "REPLACE"),
        ({"counters__retired_pages": DOUBLE_BIT, "double_bit_pages_in_a_week": 1}, "double_bit_pages", "MONITOR"),
        ({"counters__retired_pages": DOUBLE_BIT}, "double_bit_pages", "MONITOR"),
        ({"repeated_xids": [{"code": 94, "count": 10, "place": "", "at_place": 0}]}, "xid_94_repeated", "MONITOR"),
        ({"repeated_xids": [{"code": 13, "count": 1, "place": "GPC 1, TPC 2", "at_place": 10}]}, "xid_13_repeated", "MONITOR"),
        ({"modes__ecc": {"current": False, "pending": False, "default": True}}, "ecc_off", "MONITOR"),
        ({"pcie__gpu_max_generation": 6}, "pcie_slot", "MONITOR"),
        ({"fabric": {"state": "not_started", "status": "SUCCESS"}}, "fabric_not_started", "REBOOT"),
        ({"fabric": {"state": "in_progress", "status": "SUCCESS"}}, "fabric_in_progress", "REBOOT"),
        ({"fabric": {"state": "in_progress", "status": "SUCCESS"}, "uptime_s": 60.0}, "fabric_in_progress", "MONITOR"),
        ({"fabric": {"state": "completed", "status": "UNKNOWN"}}, "fabric_failed", "REBOOT"),
        ({"fabric": {"state": "completed", "status": "SUCCESS", "summary": "unhealthy"}}, "fabric_health", "MONITOR"),
        ({"fabric": {"state": "completed", "status": "SUCCESS", "health": {"route_unhealthy": True}}}, "fabric_health", "MONITOR"),
        ({"expected_nvlinks": 18}, "nvlinks_down", "RESET_GPU"),
        ({"since_last_check": {"seconds": 600, "nvlink_integrity_errors": 1}}, "nvlink_integrity_errors", "MONITOR"),
        ({"counters__nvlink_5": {"effective_ber": 2e-12}}, "nvlink_bit_error_rate", "MONITOR"),
    ],
)  # fmt: skip
def test_each_rule_has_its_reason(signs: Any, name: str, expected: str) -> None:
    judged = health.judge(card(**signs), [], {})
    assert {row["what"]: row["verdict"] for row in judged["reasons"]} == {name: expected}
    assert judged["verdict"] == expected
    (reason,) = judged["reasons"]
    assert reason["source"].startswith("https://") and reason["evidence"] and reason["next_step"]


@pytest.mark.parametrize(
    "signs",
    [
        {"counters__remapped_rows__uncorrectable": 511},
        {"counters__remapped_rows__correctable": 5000},
        {
            "counters__retired_pages": {"single_bit": 47, "double_bit": 15, "pending": False},
            "double_bit_pages_in_a_week": 13,
        },
        {"counters__sram__aggregate_uncorrectable": 3},
        {"clocks__event_reasons": ["sw_power_cap", "sw_thermal", "idle"]},
        {"since_last_check": {"seconds": 60, "pcie_replays": 31}},
        {"since_last_check": {"seconds": 600, "hardware_slowdown_s": 300.0, "nvlinks_gone": []}},
        {"since_last_check": {"seconds": 600, "pcie_replays": None, "nvlinks_gone": None}},
        # An NVLink that never was active: a card without a bridge.
        {"nvlink__links": [{"link": 0, "active": False}]},
        {"shown_by_nvml": None},
        {"counters__inforom_valid": None},
        {"counters__nvlink_5": {"effective_ber": 1e-12}},
        {"expected_nvlinks": 2},
        {"repeated_xids": [{"code": 94, "count": 9, "place": "", "at_place": 0}]},
        # A card for workstations has ECC, and it is off by default.
        {"modes__ecc": {"current": False, "pending": False, "default": False}},
        {"pcie__gpu_max_generation": 5},
        {
            "fabric": {
                "state": "completed",
                "status": "SUCCESS",
                "summary": "healthy",
                "health": {"route_unhealthy": False, "degraded_bandwidth": None, "incorrect_configuration": "none"},
            }
        },
    ],
)
def test_value_below_its_limit_is_no_reason(signs: Any) -> None:
    assert reasons(card(**signs)) == {}


def test_h100_with_a_margin_of_0_is_healthy() -> None:
    assert reasons(card(temperature__margin_c=0)) == reasons(card(temperature__margin_c=-3)) == {}


def test_low_pcie_generation_counts_only_under_load() -> None:
    idle = {"pcie__current_generation": 1, "pcie__current_width": 8}
    assert reasons(card(**idle, utilization__gpu_percent=0)) == {}
    assert reasons(card(**idle, utilization__gpu_percent=None)) == {}
    assert reasons(card(**idle, utilization__gpu_percent=95)) == {"pcie_generation": "MONITOR", "pcie_width": "MONITOR"}


def test_given_limits_are_used() -> None:
    limits = health.Limits(remapped_rows=8, busy_percent=10)
    signs = card(counters__remapped_rows__uncorrectable=8, pcie__current_width=4, utilization__gpu_percent=20)
    assert verdict(signs, limits=limits) == "REPLACE"
    assert verdict(signs) == "PASS"


# --- NVML's failures ---


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("GPU_IS_LOST", "REBOOT"),
        ("RESET_REQUIRED", "RESET_GPU"),
        ("LIB_RM_VERSION_MISMATCH", "REBOOT"),
        ("DRIVER_NOT_LOADED", "REBOOT"),
        ("LIBRARY_NOT_FOUND", "REBOOT"),
        ("IRQ_ISSUE", "REBOOT"),
        ("INSUFFICIENT_POWER", "REBOOT"),
        ("CORRUPTED_INFOROM", "REBOOT"),
        ("UNKNOWN", "MONITOR"),
        ("TIMEOUT", "MONITOR"),
    ],
)
def test_error_of_nvml_is_a_verdict_with_a_next_step(name: str, expected: str) -> None:
    code = next(code for code, answer in ANSWERS.items() if answer.name == name)
    problem = NvmlError(code, "nvmlDeviceGetHandleByIndex").as_result()
    for judged in (
        health.judge(NOTHING | {"problem": problem}, [], {}),
        health.judge(NOTHING, [], {"problem": problem}),
    ):
        assert judged["verdict"] == expected
        assert judged["reasons"][0]["what"] == f"nvml_{name}"
        assert judged["reasons"][0]["next_step"] == ANSWERS[code].next_step


def test_errors_with_a_verdict_are_errors_of_nvml() -> None:
    assert health.ERROR_VERDICTS.keys() <= {answer.name for answer in ANSWERS.values()}


# --- Authority ---


def test_highest_authority_comes_first_among_equals() -> None:
    lost = NvmlError(15, "nvmlDeviceGetHandleByIndex").as_result()
    signs = card(problem=lost, counters__recovery_action="reboot", counters__remapped_rows__pending=True)
    judged = health.judge(signs, [Xid(79, SLOT), Xid(109, SLOT)], {})
    assert [row["what"] for row in judged["reasons"]] == [
        *("nvml_GPU_IS_LOST", "recovery_action", "xid_79"),
        *("row_remap_pending", "xid_109"),
    ]


def test_the_most_severe_reason_decides_at_any_position() -> None:
    signs = card(counters__remapped_rows__failure=True, counters__recovery_action="reset")
    assert verdict(signs, 79, 13) == "REPLACE"


def test_pending_row_counts_and_xid_63_does_not() -> None:
    # gpud reboots for it, and the k8s plugin takes the GPU out.
    assert verdict(card(), 63) == "PASS"
    assert verdict(card(counters__remapped_rows__pending=True), 63) == "RESET_GPU"


def test_xid_154_has_recovery_action_and_next_step() -> None:
    text = "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    judged = health.judge(card(), [Xid(154, SLOT, text=text)], {})
    assert judged["verdict"] == "REBOOT"
    assert judged["reasons"][0]["next_step"] == data.recovery(2).next_step


def test_repeated_xid_is_one_reason_with_count_and_process() -> None:
    xids = [Xid(31, SLOT, 0.0, 7, "train", text="MMU Fault"), Xid(31, SLOT, 3600.0, 8, "serve", text="MMU Fault")]
    (reason,) = health.judge(card(), xids, {})["reasons"]
    assert "2 times, the last 1970-01-01T01:00:00Z by serve (8): MMU Fault" in reason["evidence"]


# --- More evidence never makes a verdict milder ---

FAULTS = st.fixed_dictionaries(
    {},
    optional={
        "counters__recovery_action": st.sampled_from(["reset", "reboot", "drain_p2p", "drain_and_reset", "unknown (9)"]),
        "counters__unrepairable_memory": st.just(True),
        "counters__remapped_rows__failure": st.just(True),
        "counters__remapped_rows__pending": st.just(True),
        "counters__remapped_rows__uncorrectable": st.integers(0, 600),
        "counters__sram__threshold_exceeded": st.just(True),
        "counters__repair_pending__channel": st.just(True),
        "counters__ecc_errors__volatile__uncorrected": st.integers(0, 5),
        "clocks__event_reasons": st.lists(st.sampled_from(["hw_thermal", "sw_power_cap", "power_brake"])),
        "temperature__gpu_c": st.integers(20, 110),
        "pcie__current_width": st.sampled_from([4, 8, 16]),
        "utilization__gpu_percent": st.integers(0, 100),
        "since_last_check__seconds": st.just(600.0),
        "since_last_check__pcie_replays": st.integers(0, 200),
        "since_last_check__nvlinks_gone": st.lists(st.integers(0, 17)),
        "returned_xids": st.lists(st.sampled_from([79, 119])),
        "problem": st.sampled_from(sorted(ANSWERS)).map(lambda code: NvmlError(code, "nvmlInit_v2").as_result()),
    },
)  # fmt: skip
TEXTS = st.sampled_from(
    ["", "changed from 0x0 (None) to 0x1 (x): recovery action changed from 0x0 (None) to 0x1 (x)", "Fatal XC0", "Nonfatal XC0"]
)  # fmt: skip
XIDS = st.lists(st.builds(Xid, st.integers(1, 180), st.just(SLOT), text=TEXTS), max_size=6)


@settings(max_examples=CASES)
@given(FAULTS, FAULTS, XIDS, XIDS)
def test_adding_evidence_never_makes_a_verdict_milder(
    signs: Any, more_signs: Any, xids: list[Xid], more_xids: list[Xid]
) -> None:
    before = health.judge(card(**signs), xids, {})
    # Another value for the same sign would be other evidence, and not more.
    after = health.judge(card(**{**more_signs, **signs}), [*more_xids, *xids], {})
    assert health.rank(after["verdict"]) >= health.rank(before["verdict"])
    assert {row["what"] for row in before["reasons"]} <= {row["what"] for row in after["reasons"]}


# --- Mistakes of other tools (gpu.md 9) ---


def test_remapped_rows_count_unlike_azures_check() -> None:
    """Compare the right column: Azure reads three columns (pending, failure, uncorrectable), and compares a fourth one with 512."""
    columns = [0, 0, 600]
    assert not columns[3:]
    assert reasons(card(counters__remapped_rows__uncorrectable=columns[2])) == {"remapped_rows": "REPLACE"}


@pytest.mark.parametrize(
    ("signs", "name"),
    [
        ({"counters__ecc_errors__volatile__uncorrected": 1}, "uncorrected_errors"),
        ({"since_last_check": {"seconds": 60, "nvlink_crc_errors": 6000}}, "nvlink_crc_errors"),
    ],
)
def test_ecc_and_nvlink_count_unlike_gcps_checks(signs: Any, name: str) -> None:
    """Count every error and every GPU: GCP sums an empty column, which is always 0, and checks the links of GPU 0 only."""
    assert name in reasons(card(**signs))


def test_healthy_node_passes_unlike_deepops_prolog() -> None:
    """Pass a card without a reason, and no other: DeepOps drains a node where grep finds no "fail"."""
    assert verdict(card()) == "PASS"
    assert verdict(card(), 95) != "PASS"


def test_xid_109_resets_unlike_the_k8s_plugin() -> None:
    assert verdict(card(), 109) == "RESET_GPU"


def test_xid_62_is_halted_firmware_unlike_dcgms_heat() -> None:
    assert reasons(card(), 62) == {"xid_62": "RESET_GPU"}
    assert data.find(62).subsystem == "firmware"

# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of tests, their ceilings, and the shares of samples with a reason for a low clock, or without one."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import figures

from tests.unit.support.gpu.reports import HEALTHY, card, events, samples

Facts = Any


def figure(test: str, value: float | None = None, facts: Facts | None = None, **changes: Any) -> Facts:
    """Return the figures of a test. *facts* change the card, *changes* its samples."""
    windows = events(**{test: HEALTHY[test] if value is None else value})
    return figures.figures(card(**(facts or {})), windows, samples(**changes))[test]


def test_the_best_window_of_the_bus_counts():
    slow = {"event": "window", "test": "h2d", "unit": "gb_s", "from": 0.0, "to": 1.0, "value": 46.0}
    windows = [slow, slow, {**slow, "value": 55.0}]
    assert figures.figures(card(), windows, [])["h2d"]["value"] == 55.0
    copies = [{**window, "test": "copy"} for window in windows]
    assert figures.figures(card(), copies, [])["copy"]["value"] == 46.0


@pytest.mark.parametrize(
    ("result", "clock", "test", "tflops"),
    [
        ({}, 1830, "matmul_fp8", 1979),
        ({}, 1830, "matmul_tf32", 495),
        ({}, 1980, "matmul_fp64", 66.9),
        ({"compute_capability": "8.0", "compute": {"sm_count": 108}}, 1410, "matmul_fp64", 19.5),
        ({"compute_capability": "8.6", "compute": {"sm_count": 84}}, 1800, "matmul_fp64", 0.605),
    ],
)
def test_every_type_has_the_ceiling_of_its_data_sheet(result: Facts, clock: int, test: str, tflops: float):
    facts = figure(test, tflops / 2, result, clock_mhz=clock)

    assert facts["ceiling"] == pytest.approx(tflops, rel=0.01)


def test_both_directions_have_twice_the_ceiling():
    facts = figure("h2d_d2h")

    assert (facts["ceiling"], facts["value"]) == (pytest.approx(126, rel=1e-2), 90)


@pytest.mark.parametrize(
    ("name", "brand", "sm", "clock", "tensor", "lightning"),
    [("RTX 4090", "geforce_rtx", 128, 2520, 165.2, 82.6), ("RTX 3090", "geforce_rtx", 82, 1695, 71.2, 35.6)],
)
def test_peak_is_with_tensor_cores_unlike_lightnings(
    name: str, brand: str, sm: int, clock: int, tensor: float, lightning: float
):
    """Fail a card at half its speed: with Lightning's number it is at 100 %."""
    capability = "8.9" if name == "RTX 4090" else "8.6"
    result = {
        "name": f"NVIDIA GeForce {name}",
        "brand": brand,
        "compute_capability": capability,
        "compute": {"sm_count": sm},
    }
    facts = figure("matmul_bf16", lightning, result, clock_mhz=clock)

    assert facts["ceiling"] == pytest.approx(tensor, rel=0.01)
    assert facts["efficiency"] == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("test", "changes", "share"),
    [
        ("matmul_fp32", {"clock_mhz": 1188, "reasons": []}, 0),
        ("matmul_fp32", {"clock_mhz": 1187, "reasons": []}, 1),
        ("matmul_fp32", {"clock_mhz": 1187, "reasons": ["idle", "sw_power_cap"]}, 0),
        ("matmul_fp32", {"clock_mhz": None}, None),
        ("copy", {"memory_clock_mhz": 1900}, 1),
        ("copy", {"memory_clock_mhz": 1900, "reasons": ["hw_slowdown"]}, 0),
        ("h2d", {"clock_mhz": 345, "memory_clock_mhz": 405, "reasons": []}, None),
    ],
)
def test_low_clock_without_a_reason_has_its_share(test: str, changes: Facts, share: float | None):
    assert figure(test, **changes)["low_clock_share"] == share


def test_unknown_highest_clock_has_no_share():
    unknown = {"clocks": {"max_mhz": {"sm": None, "memory": None}, "locked_mhz": None}}
    assert figure("copy", facts=unknown, memory_clock_mhz=405)["low_clock_share"] is None


@pytest.mark.parametrize(
    ("reasons", "share"), [(["hw_slowdown"], 1), (["hw_slowdown", "power_brake"], 0), ([], 0), (None, None)]
)
def test_slowdown_counts_where_nothing_else_is_named(reasons: list[str] | None, share: float | None):
    assert figure("copy", reasons=reasons)["hw_slowdown_share"] == share

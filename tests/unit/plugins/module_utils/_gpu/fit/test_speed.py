# SPDX-License-Identifier: GPL-3.0-or-later
"""Speeds: properties, and those of a real card."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import cards, speed

from tests.unit.support.gpu_fit import job

MEASURED = Path(__file__).parents[6] / "docs/measurements/gpu_fit_h100.json"


def test_a_faster_card_is_never_slower() -> None:
    for request in (job(), job(torchvision="resnet50"), job(task="infer", new_tokens=8)):
        slow, fast = (speed.predict(request, cards.find(name).rates()) for name in ("RTX 3060", "H100"))
        assert slow.step_s >= fast.step_s


def test_tensor_sharing_divides_work() -> None:
    alone, shared = speed.measure(job()), speed.measure(job(gpus=4, sharing="tensor"))
    assert shared.tensor == pytest.approx(alone.tensor / 4)


def test_speeds_of_a_real_card() -> None:
    figures = json.loads(MEASURED.read_text())
    found = figures["rates"]
    rates = speed.Rates(
        found["bf16_tflops"], found["tf32_tflops"], found["fp32_tflops"], found["copy_gb_s"], "baseline"
    )
    held_out = [case for case in figures["cases"] if case["request"]["split"] == "held_out"]
    errors = [
        abs(speed.predict(job(**case["request"]), rates).step_s / case["measured"]["step_s"] - 1) for case in held_out
    ]
    # The aim of 15 % was missed: docs/gpu_fit.md. This keeps it from getting worse.
    assert statistics.median(errors) <= 0.21

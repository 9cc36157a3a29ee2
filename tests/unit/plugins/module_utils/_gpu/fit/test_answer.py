# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts, largest batches and speeds on cards."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import answer, cards, memory
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.request import Request
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.support.gpu_fit import LLAMA, job

MEASURED = Path(__file__).parents[6] / "docs/measurements/gpu_fit_h100.json"
H100, OLD = cards.find("H100"), cards.find("GTX 1080 Ti")


# Each example searches a batch, which estimates some thirty times.
JOBS = [
    *(job(torchvision=name, task=task) for name in ("resnet18", "resnet50", "vit_b_16") for task in ("train", "infer")),
    *(job(task=task, dtype=dtype) for task in ("train", "lora", "qlora", "infer") for dtype in ("amp", "bf16")),
    job(task="infer", new_tokens=100),
    *(job(gpus=4, sharing=sharing) for sharing in ("ddp", "fsdp", "tensor")),
]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(cards.CARDS), st.sampled_from(JOBS))
def test_the_largest_batch_fits_and_the_next_does_not(card: cards.Card, request: Request) -> None:
    batch = answer.largest_batch(request, memory.estimate, card.bytes)
    assert batch == 0 or memory.estimate(request._replace(batch=batch)).high <= card.bytes
    assert memory.estimate(request._replace(batch=batch + 1)).high > card.bytes


def test_verdicts() -> None:
    need = memory.estimate(job())
    assert answer.verdict(need, need.high) == "yes"
    assert answer.verdict(need, need.total) == "tight"
    assert answer.verdict(need, need.low - 1) == "no"


def test_memory_of_several_gpus_is_that_of_each() -> None:
    notes = [answer.estimate(job(**given), [])["notes"] for given in ({}, {"gpus": 2, "sharing": "ddp"})]
    assert [any("each of the 2 GPUs" in note for note in found) for found in notes] == [False, True]


def test_a_job_that_does_not_fit_has_no_batch() -> None:
    found = answer.estimate(job(batch=4), [OLD, H100])
    assert [(row["fits"], row["max_batch"] > 0) for row in found["cards"]] == [("no", False), ("yes", True)]


def test_the_baseline_of_gpu_accept_is_used() -> None:
    baseline = {"tests": {"matmul_bf16": {"value": 350.0}, "copy": {"value": 1500.0}}}
    sheet, real = (answer.on_card(job(batch=16), H100, memory.estimate, given) for given in (None, baseline))
    assert (sheet["rates_from"], real["rates_from"]) == ("sheet", "baseline")
    assert real["step_s"] > 1.9 * sheet["step_s"]
    assert real["rate_high"] / real["rate_low"] < sheet["rate_high"] / sheet["rate_low"]


@pytest.mark.parametrize("baseline", [[], {}, {"tests": []}])
def test_no_baseline_is_refused(baseline: Any) -> None:
    with pytest.raises(Refusal, match="`baseline` is no baseline"):
        answer.on_card(job(), H100, memory.estimate, baseline)


@pytest.mark.parametrize("value", [0, -1, True, "5", 1e-300, 1e308, 10**400, float("nan")])
def test_a_rate_that_no_card_has_is_refused(value: Any) -> None:
    with pytest.raises(Refusal, match="`baseline`: the value of copy is .*: measure the card"):
        answer.measured_rates(H100, {"tests": {"copy": {"value": value}}})


def test_a_baseline_of_another_card_is_refused() -> None:
    with pytest.raises(Refusal, match="`baseline` is of NVIDIA L4, and not of H100 SXM5 80 GB: name its card"):
        answer.measured_rates(H100, {"name": "NVIDIA L4", "tests": {}})
    for card, name in (
        (H100, "NVIDIA H100 80GB HBM3"),
        (cards.find("RTX 4060 Ti 16 GB"), "NVIDIA GeForce RTX 4060 Ti"),
    ):
        assert answer.measured_rates(card, {"name": name, "tests": {}}) == card.rates()


def test_a_rate_that_was_not_measured_is_that_of_the_sheet() -> None:
    for tests in ({}, {"copy": None}, {"copy": {"value": None}}):
        assert answer.measured_rates(H100, {"tests": tests}) == H100.rates()


def test_a_card_without_bf16_says_so() -> None:
    assert "no units for bf16" in answer.estimate(job(), [cards.find("T4")])["cards"][0]["notes"][0]


def test_the_answer_needs_no_torch_and_says_what_it_is_based_on(monkeypatch: pytest.MonkeyPatch) -> None:
    # An import of it would fail now.
    monkeypatch.setitem(sys.modules, "torch", None)
    formula = answer.estimate(job(), [])
    assert formula["basis"] == "formula" and "no model was built" in formula["notes"][0]
    assert answer.estimate(job(torchvision="resnet50"), [])["basis"] == "table"
    unknown = answer.estimate(job(config={**LLAMA, "mystery": True}), [])
    assert "unknown fields widen the interval: mystery" in unknown["notes"]

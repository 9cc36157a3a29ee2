# SPDX-License-Identifier: GPL-3.0-or-later
"""Speeds: properties, and those of a real card."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import (
    cards,
    load,
    speed,
)

from tests.unit.support.gpu_fit import LLAMA, job

MEASURED = Path(__file__).parents[6] / "docs/measurements/gpu_fit_h100.json"


def whole(loads: tuple[load.Load, ...]) -> load.Load:
    return load.Load().plus(*loads)


def test_a_faster_card_is_never_slower() -> None:
    for given in (job(), job(torchvision="resnet50"), job(task="infer", new_tokens=8)):
        slow, fast = (speed.predict(given, cards.find(name).rates()) for name in ("RTX 3060", "H100"))
        assert slow.step_s >= fast.step_s


def test_tensor_sharing_divides_work() -> None:
    alone, shared = speed.measure(job()), speed.measure(job(gpus=4, sharing="tensor"))
    assert whole(shared.first).tensor == pytest.approx(whole(alone.first).tensor / 4)
    assert whole(shared.rest).moved == pytest.approx(whole(alone.rest).moved / 4)


def test_the_card_waits_for_a_slow_host_and_may_catch_up() -> None:
    tiny = speed.predict(job(batch=1, sequence=1), cards.find("H100").rates())
    assert tiny.decides == "host"
    # The host starts the kernels of the backward pass while the card calculates the head.
    waits = speed.predict(job(batch=8, sequence=256), cards.find("H100").rates())
    work = speed.measure(job(batch=8, sequence=256))
    assert waits.decides != "host" and waits.step_s > work.host_first_s


def test_a_mask_makes_attention_slower() -> None:
    plain, window = (
        job(config={**LLAMA, "model_type": "mistral", "sliding_window": size}, batch=16) for size in (None, 256)
    )
    assert whole(speed.measure(window).first).tensor > whole(speed.measure(plain).first).tensor
    rates = cards.find("H100").rates()
    assert speed.predict(window, rates).step_s > speed.predict(plain, rates).step_s


def test_a_frozen_weight_has_no_gradient_to_convert() -> None:
    """Autocast reads four bytes and writes two for each; only a trained weight has a gradient, which goes back."""
    moved = {
        (task, dtype): whole(speed.measure(job(task=task, dtype=dtype, lora_rank=1)).rest).moved
        for task in ("lora", "qlora")
        for dtype in ("amp", "bf16")
    }
    again = {task: moved[task, "amp"] - moved[task, "bf16"] for task in ("lora", "qlora")}
    linear = 973_078_528
    assert again["lora"] - again["qlora"] == pytest.approx(6 * linear, rel=0.01)


def test_generation_in_fp32_has_no_tensor_cores() -> None:
    work = speed.measure(job(task="infer", new_tokens=8, dtype="fp32"))
    assert whole(work.first).tensor == 0 < whole(work.first).plain


def test_energy_is_that_of_all_gpus() -> None:
    rates = cards.find("H100").rates()
    single, four = (speed.predict(job(**given), rates, 700) for given in ({}, {"gpus": 4, "sharing": "ddp"}))
    assert four.joules == pytest.approx(4 * (single.joules or 0))


def test_speeds_of_a_real_card() -> None:
    figures = json.loads(MEASURED.read_text())
    found = figures["rates"]
    rates = load.Rates(
        found["bf16_tflops"],
        found["tf32_tflops"],
        found["fp32_tflops"],
        found["copy_gb_s"],
        "baseline",
        cards.find("H100").rates().cores,
    )
    held_out = [case for case in figures["cases"] if case["request"]["split"] == "held_out"]
    for case in held_out:
        # fit_models.py builds convolutional networks so.
        if case["request"].get("torchvision", "vit").startswith(("resnet", "vgg")):
            case["request"]["channels_last"] = True
    errors = [
        abs(speed.predict(job(**case["request"]), rates).step_s / case["measured"]["step_s"] - 1) for case in held_out
    ]
    # The aim of 15 % was missed by a little: docs/gpu_fit.md. This keeps it from getting worse.
    assert statistics.median(errors) <= 0.155


def test_products_hide_what_they_read() -> None:
    """Generation reads each weight once for a token: with a large batch that takes no time of its own."""
    rates = cards.find("H100").rates()
    small, large = (
        speed.predict(job(task="infer", new_tokens=8, batch=batch, sequence=1), rates) for batch in (1, 4096)
    )
    weights = 2 * 8 * 1_235_814_400 / (rates.copy * 1e9)
    products = whole(speed.measure(job(task="infer", new_tokens=8, batch=4096, sequence=1)).first)
    assert small.step_s >= weights
    assert large.step_s < weights + products.tensor / (rates.bf16 * 1e12) + products.moved / (rates.copy * 1e9)


def test_a_long_prompt_makes_each_token_slower() -> None:
    rates = cards.find("RTX 4090").rates()
    short, long = (job(task="infer", new_tokens=16, sequence=length, batch=8) for length in (128, 16384))
    assert speed.predict(long, rates).step_s > 3 * speed.predict(short, rates).step_s
    prompts = [speed.prompt_s(each, rates) or 0.0 for each in (short, long)]
    assert prompts[1] > 50 * prompts[0] > 0
    assert speed.prompt_s(job(), rates) is None


def test_channels_last_is_faster() -> None:
    rates = cards.find("RTX 3090").rates()
    planar, last = (
        speed.predict(job(torchvision="resnet50", batch=64, channels_last=value), rates) for value in (False, True)
    )
    assert last.step_s < planar.step_s

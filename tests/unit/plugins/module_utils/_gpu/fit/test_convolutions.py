# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels of convolutional networks, and our measurements of an H100 and an H200."""

from __future__ import annotations

import statistics
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import (
    cards,
    convolutions,
    load,
    memory,
    nets,
    speed,
)

from harness.bench.fit_kernels import rates, rows
from tests.unit.support.gpu_fit import job


def test_convolutional_networks_on_two_cards() -> None:
    """Half and a quarter of the multiprocessors (MPS) tell what these limit from what the bandwidth limits."""
    errors: dict[Any, list[float]] = {}
    for row, wanted in rows():
        if wanted.net and not wanted.compile:
            share = row.get("multiprocessors", 1.0)
            found = speed.predict(wanted, rates(row["card"], share)).step_s / row["step_s"] - 1
            errors.setdefault((row["card"], share, wanted.task), []).append(found)
    for key, found in errors.items():
        assert abs(statistics.median(found)) <= (0.10 if key[1] == 1.0 else 0.20), key
    everything = [abs(error) for found in errors.values() for error in found]
    assert len(everything) > 100 and statistics.median(everything) < 0.10


def test_a_compiled_network_is_as_fast_as_measured() -> None:
    for row, wanted in rows():
        if wanted.net and wanted.compile:
            assert speed.predict(wanted, rates(row["card"])).step_s == pytest.approx(row["step_s"], rel=0.05)


def test_memory_of_other_ways_to_train() -> None:
    """Offloading, paged optimizers, other activations and adapters: nothing was tuned on these tensors."""
    errors = [
        memory.estimate(wanted).tensors / row["allocated"] - 1
        for row, wanted in rows()
        if wanted.model and not wanted.model.image and not wanted.compile and "lora_dropout" not in row
    ]
    assert len(errors) > 25 and statistics.median(map(abs, errors)) < 0.02 and max(map(abs, errors)) < 0.10


def test_an_offload_is_as_slow_as_measured() -> None:
    for row, wanted in rows():
        if wanted.offload != "none":
            assert speed.predict(wanted, rates(row["card"])).step_s == pytest.approx(row["step_s"], rel=0.2)


def test_two_gpus_as_measured() -> None:
    errors = []
    for row, wanted in rows("two_gpus"):
        if row["gpus"] == 2:
            errors.append(memory.estimate(wanted, memory.basis_of(wanted)).tensors / row["allocated"] - 1)
            fast = speed.predict(wanted, rates("H200"))
            if fast.decides != "host":
                assert fast.step_s == pytest.approx(row["step_s"], rel=0.12)
    assert statistics.median(map(abs, errors)) < 0.02


def test_bandwidth_alone_decides_with_many_multiprocessors() -> None:
    """A card with little bandwidth for each multiprocessor never waits for norms."""
    wanted = job(torchvision="resnet50", task="infer", batch=256, dtype="amp", channels_last=True)
    few = rates("H200")._replace(cores=20.0)
    assert speed.predict(wanted, few).decides == "multiprocessors"
    assert speed.predict(wanted, cards.find("RTX 3090").rates()).decides != "multiprocessors"


def test_norms_are_slower_in_bf16() -> None:
    bf16, fp16 = (
        speed.predict(job(torchvision="resnet50", batch=256, dtype="amp", half=half), rates("H100")).step_s
        for half in ("bf16", "fp16")
    )
    assert bf16 > 1.1 * fp16


def test_the_kernels_of_a_net_add_up() -> None:
    net = nets.net("resnet50", 224)
    assert net.layers
    assert sum(each.flops for each in net.layers.convolutions) == net.flops
    # All convolutions of a ResNet are followed by a norm.
    assert net.layers.norms == net.outputs
    forward = convolutions.forward(net.layers, 8, 2, "fp16", True, True)
    assert load.Load().plus(*forward).tensor == pytest.approx(8 * net.flops / convolutions.SHARE)

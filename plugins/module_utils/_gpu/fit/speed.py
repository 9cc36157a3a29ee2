# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The time and the energy of a step, from operations, bytes and kernels. Pure.

A step takes as long as the card needs for its matrix products and for moving data, or as long as the host needs to start its
kernels, whichever is longer.
"""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import families, memory
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.request import Request

# From the ten tuning configurations (docs/gpu_fit.md). Matrix products of real layers reach this share of a large square product;
# layers without them read and write each saved byte so many times; the host needs so many microseconds for each kernel.
MATRIX = 0.78
CONVOLUTION = 0.78
MOVED = 11.6
NET_MOVED = 13.1
HOST_US = 29.7
HOST_BACKWARD_US = 14.0
# Bytes that are moved for each logit in training: conversions, the softmax, and two gradients.
LOGIT_BYTES = 100.0
# Tensor cores need rows of a multiple of 8 elements; other products are so many times slower.
UNALIGNED = 3.6
# Share of the card's rate that a data sheet's figure reaches in a large product and in a copy, without a baseline.
SHEET = {"matrix": 0.72, "copy": 0.90}
# Half width of the interval of the speed, as a factor.
SPREAD = {"baseline": 1.5, "sheet": 1.9}
# Share of the power limit: least, and what full use of matrix units or memory adds.
IDLE_POWER, BUSY_POWER = 0.62, 0.34


class Work(t.NamedTuple):
    """What one step does on one GPU. *tensor* and *plain* are operations with and without tensor cores of the dtype."""

    tensor: float
    plain: float
    moved: float
    host_s: float
    items: int
    unit: str


class Rates(t.NamedTuple):
    """What a card does: TFLOPS in large products, GB/s in copies. *basis* is baseline or sheet."""

    bf16: float
    tf32: float
    fp32: float
    copy: float
    basis: str


class Speed(t.NamedTuple):
    """Seconds of a step, and what decides them: matrix units, bandwidth, or the host."""

    step_s: float
    low_s: float
    high_s: float
    rate: float
    rate_low: float
    rate_high: float
    unit: str
    decides: str
    joules: float | None


def _attention(request: Request, model: families.Model, tokens: int) -> float:
    """Return operations of attention in one forward pass: half of the square where later tokens are not attended to."""
    length = tokens / request.batch
    half = 1.0 if not model.traits.generates else 0.5
    return 4 * tokens * length * half * model.heads * model.head_dim * model.layers


def _optimizer_bytes(request: Request, trainable: float, element: int) -> float:
    if not request.trains:
        return 0.0
    touched = {"sgd_plain": 3, "sgd": 5, "adamw": 7, "adamw_foreach": 17, "adamw_8bit": 4.5, "adafactor": 12}
    return touched[request.optimizer] * trainable * element


def measure(request: Request) -> Work:
    """Return the work of a training step, a pass, or of all new tokens."""
    if request.net is not None:
        return _net(request)
    model = t.cast(families.Model, request.model)
    if request.new_tokens:
        return _decoding(request, model)
    count = families.parameters(model)
    tokens = request.tokens
    divided = request.gpus if request.sharing == "tensor" else 1
    products = 2.0 * count["active"] * tokens + _attention(request, model, tokens)
    head_products = 2.0 * model.width * max(model.vocabulary, 0) * tokens
    if model.vocabulary % 8 and request.dtype != "fp32":
        head_products *= UNALIGNED
    passes = 1.0
    if request.trains:
        passes = (2.0 if request.adapters else 3.0) + (1.0 if request.checkpointing else 0.0)
    operations = (products * passes + head_products * (3.0 if request.trains else 1.0)) / divided
    element = 4 if request.dtype in ("fp32", "amp") else 2
    layer = memory.layer_bytes(request, model) * tokens * model.layers / divided
    trainable = memory.adapter_parameters(request, model) if request.adapters else count["total"]
    kernels = model.layers * model.traits.kernels
    if request.trains:
        moved = MOVED * layer * (4 / 3 if request.checkpointing else 1) + LOGIT_BYTES * tokens * model.vocabulary
        moved += _optimizer_bytes(request, trainable, element) + (8.0 * count["total"] if request.dtype == "amp" else 0)
        host = kernels * (HOST_US * (2 if request.checkpointing else 1) + 2 * HOST_BACKWARD_US)
    else:
        moved = MOVED / 3 * layer + count["total"] * element
        host = kernels * HOST_US
    plain = operations if request.dtype == "fp32" or (request.dtype == "amp" and model.experts > 1) else 0.0
    unit, items = ("images", request.batch) if model.image else ("tokens", tokens)
    return Work(operations - plain, plain, moved, host / 1e6, items, unit)


def _decoding(request: Request, model: families.Model) -> Work:
    count, element = families.parameters(model), request.element
    divided = request.gpus if request.sharing == "tensor" else 1
    cache = request.batch * families.cache_bytes(model, request.sequence + request.new_tokens // 2, element)
    # All experts are read when a batch has several tokens.
    weights = count["total"] * element
    moved = (weights + 3.0 * cache) / divided * request.new_tokens
    operations = 2.0 * (count["active"] + count["head"]) * request.batch * request.new_tokens / divided
    host = model.layers * model.traits.kernels * HOST_US * request.new_tokens / 1e6
    return Work(operations, 0.0, moved, host, request.batch * request.new_tokens, "tokens")


def _net(request: Request) -> Work:
    net = t.cast(t.Any, request.net)
    steps = request.tokens if request.recurrent else request.batch
    passes, element = (3 if request.trains else 1), request.element
    moved = NET_MOVED * (1 if request.trains else 1 / 3) * net.saved * element * steps
    weight = 2 if request.dtype in ("bf16", "fp16") else 4
    moved += _optimizer_bytes(request, net.parameters, weight) + net.parameters * weight
    host = net.kernels * (HOST_US + (2 * HOST_BACKWARD_US if request.trains else 0)) / 1e6
    operations = float(passes * net.flops * steps)
    # cuDNN multiplies fp32 in TF32 by default; so do recurrent layers.
    unit, items = ("tokens", steps) if request.recurrent else ("images", request.batch)
    return Work(operations * MATRIX / CONVOLUTION, 0.0, moved, host, items, unit)


def predict(request: Request, rates: Rates, power_w: float | None = None) -> Speed:
    """Return the speed on a card."""
    work = measure(request)
    tensor = rates.tf32 if request.dtype == "fp32" else rates.bf16
    products = (work.tensor / (tensor * 1e12) + work.plain / (rates.fp32 * 1e12)) / MATRIX
    moving = work.moved / (rates.copy * 1e9)
    card = products + moving
    step = max(card, work.host_s)
    decides = "host" if work.host_s > card else ("matrix units" if products > moving else "bandwidth")
    spread = SPREAD[rates.basis]
    busy = min(1.0, card / step) * products / card
    joules = None if power_w is None else step * power_w * (IDLE_POWER + BUSY_POWER * busy)
    low, high = step / spread, step * spread
    items = work.items * (request.gpus if request.sharing in ("ddp", "fsdp") else 1)
    return Speed(step, low, high, items / step, items / high, items / low, work.unit, decides, joules)

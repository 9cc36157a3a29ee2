# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The time and the energy of a step, from operations, bytes and kernels. Pure.

A step takes as long as the card needs for its matrix products and attention, or for what these read and write where that takes longer, and
then for all other kernels, which move data. Where the host starts kernels more slowly
than the card finishes them, the card waits; in the rest of a step it may catch up.
"""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import (
    convolutions,
    families,
    kernels,
    memory,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.load import Load, Rates, Times, seconds
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.request import Request

# From our own measurements on H100 and H200 (docs/gpu_fit.md). Layers reach a share of the rate of large products; kernels without
# products reach a share of the rate of copies.
MATRIX = 0.897
# Attention, and attention with a mask: the share in fp32, and in 16 bits the operations of a multiprocessor in a cycle. Its kernels use
# instructions older than Hopper's, which are slower than the matrix units of large products there (docs/gpu_fit.md).
ATTENTION, MASKED_ATTENTION = 0.57, 0.218
ATTENTION_CYCLE, MASKED_ATTENTION_CYCLE = 1670.0, 640.0
STREAM = 0.697
# Bytes that are moved for each logit in training: conversions, the softmax, and two gradients.
LOGIT_BYTES = 66.5
# The host needs so many microseconds to start a kernel of the forward pass, and of the backward pass for it.
HOST_US = 22.6
# Of a network whose layers are not known (a trace, an LSTM): products reach this share, and each saved byte is moved so many times.
UNKNOWN, UNKNOWN_MOVED = 0.67, 13.4
# A compiler fuses kernels without products: the share of their bytes, and of the starts, that remains.
COMPILED, COMPILED_STARTS = 0.19, 0.3
# Attention calculates its scores again in the backward pass.
ATTENTION_BACKWARD = 2.5
# Tensor cores need rows of a multiple of 8 elements; other products are so many times slower.
UNALIGNED = 3.5
# Share of the card's rate that a data sheet's figure reaches in a large product and in a copy, without a baseline.
# Products that the card's power does not limit reach 0.90 on an H200 (on zeros); without tensor cores an H100 reached 0.83.
SHEET = {"matrix": 0.90, "plain": 0.83, "copy": 0.90}
# The host's memory beside the card: GB/s of copies that no kernel hides, and seconds of the host's AdamW for 10^9 weights, with 16
# cores (docs/gpu_fit.md, "Offloading").
HOST_COPY, HOST_ADAM_S = 25.0, 0.294
# Half width of the interval of the speed, as a factor.
SPREAD = {"baseline": 1.5, "sheet": 1.9}
# Share of the power limit: least, and what full use of matrix units or memory adds.
IDLE_POWER, BUSY_POWER = 0.62, 0.34


class Work(t.NamedTuple):
    """What one step does on one GPU: in the forward pass of the layers, in all that follows, and the host's seconds for both."""

    first: tuple[Load, ...]
    rest: tuple[Load, ...]
    host_first_s: float
    host_rest_s: float
    items: int
    unit: str
    # Seconds in which the card waits for the host's memory.
    wait_s: float = 0.0


class Speed(t.NamedTuple):
    """Seconds of a step, and what decides them: matrix units, bandwidth, multiprocessors, or the host."""

    step_s: float
    low_s: float
    high_s: float
    rate: float
    rate_low: float
    rate_high: float
    unit: str
    decides: str
    joules: float | None


def _attention(request: Request, model: families.Model) -> Load:
    """Return attention in one forward pass.

    Later tokens are not attended to: half of the square. With a mask, the whole square is calculated.
    """
    tokens = request.tokens
    square = 4.0 * tokens * (tokens / request.batch) * model.heads * model.head_dim
    half = 0.5 if model.traits.generates else 1.0
    masked = sum(window is not None and window < request.sequence for window in model.windows)
    plain = (len(model.windows) - masked) * half
    if request.dtype == "fp32":
        return Load(plain=square * (masked / MASKED_ATTENTION + plain / ATTENTION))
    cycles = square * (masked / MASKED_ATTENTION_CYCLE + plain / ATTENTION_CYCLE)
    return Load(tensor=square * (masked + plain) / MATRIX, cycles=cycles)


def _optimizer_bytes(request: Request, trainable: float, element: int) -> float:
    if not request.trains:
        return 0.0
    touched = {"sgd_plain": 3, "sgd": 5, "adamw": 7, "adamw_foreach": 17, "adamw_8bit": 4.5, "adafactor": 19}
    if request.offload == "optimizer":
        return 0.0
    return touched[request.optimizer.replace("paged_", "")] * trainable * element


def measure(request: Request) -> Work:
    """Return the work of a training step, a pass, or of all new tokens."""
    if request.net is not None:
        return _net(request)
    model = t.cast(families.Model, request.model)
    if request.new_tokens:
        return _decoding(request, model)
    tokens = request.tokens
    adapters = memory.adapter_shapes(request, model) if request.adapters else []
    forward, backward = _layers(request, model, adapters)
    host = (
        kernels.count(model, len(adapters), request.task == "qlora")
        * HOST_US
        / 1e6
        * (COMPILED_STARTS if request.compile else 1.0)
    )
    unit, items = ("images", request.batch) if model.image else ("tokens", tokens)
    divided = 1.0 / (request.gpus if request.sharing == "tensor" else 1)
    if not request.trains:
        return Work(_divided([*forward, _head(request, model, 1)], divided), (), host, 0.0, items, unit)
    again = 1 if request.checkpointing else 0
    # A frozen head needs no gradient of its weights.
    head = _head(request, model, 2 if request.adapters else 3)
    wait = _waiting(request, model) + messages_s(request)
    rest = [*backward, *(load.times(again) for load in forward), head, _update(request, model)]
    return Work(_divided(forward, divided), _divided(rest, divided), host, host * (1 + again), items, unit, wait)


def _waiting(request: Request, model: families.Model) -> float:
    """Return the seconds of an offload: gradients and weights cross the bus once, activations and logits twice."""
    if request.offload == "optimizer":
        adapters = request.adapters
        trainable = memory.adapter_parameters(request, model) if adapters else families.parameters(model)["total"]
        element = memory.adapter_element(request) if adapters else request.weight
        return trainable * (2 * element / (HOST_COPY * 1e9) + HOST_ADAM_S / 1e9)
    if request.offload == "activations":
        layer = model.width * request.weight if request.checkpointing else memory.layer_bytes(request, model)
        logits = 4.0 * (0 if request.chunked_loss else model.logits)
        return 2 * request.tokens * (model.layers * layer + logits) / (HOST_COPY * 1e9)
    return 0.0


def _divided(loads: t.Iterable[Load], part: float) -> tuple[Load, ...]:
    return tuple(load.times(part) for load in loads)


def _layers(
    request: Request, model: families.Model, adapters: t.Sequence[tuple[int, int]]
) -> tuple[list[Load], list[Load]]:
    """Return the forward and the backward pass of all layers: products with what lies between them, and attention."""
    tokens, count = request.tokens, families.parameters(model)
    linear = 2.0 * count["active"] * tokens / MATRIX
    attention = _attention(request, model)
    # Adapters are in fp32, and so are experts under autocast.
    added = 2.0 * tokens * memory.adapter_parameters(request, model) if adapters else 0.0
    # The backward pass of a frozen layer needs no gradient of its weights.
    passes = 1 if request.adapters else 2
    # A product reads its inputs and writes its outputs while it calculates.
    element = 4 if request.dtype == "fp32" or (request.dtype == "amp" and model.experts > 1) else 2
    products = element * kernels.sides(model) * model.layers
    first, second = kernels.moved(model, request.dtype, adapters)
    fused = COMPILED if request.compile else 1.0
    moved = [tokens * size * fused / STREAM for size in (first, second)]
    beside = [tokens * size for size in (products, passes * products)]
    if request.task == "qlora":
        # Each pass reads the weights in four bits, and writes them in 16 for the product.
        moved = [size + count["linear"] * (memory.QUANTIZED_BYTES + 2) / STREAM for size in moved]
    plain = linear if request.dtype == "fp32" or (request.dtype == "amp" and model.experts > 1) else 0.0
    forward = Load(linear - plain, plain + added, moved[0], beside[0])
    backward = Load((linear - plain) * passes, plain * passes + 2 * added, moved[1], beside[1])
    return [forward, attention], [backward, attention.times(ATTENTION_BACKWARD)]


def _head(request: Request, model: families.Model, passes: int) -> Load:
    """Return the products with the vocabulary, and in training the loss."""
    outputs = model.logits
    operations = 2.0 * passes * model.width * outputs * request.tokens / MATRIX
    moved = (LOGIT_BYTES if request.trains else request.element) * request.tokens * outputs
    moved *= COMPILED if request.compile else 1.0
    if request.dtype == "fp32":
        return Load(0.0, operations, moved)
    return Load(operations * (UNALIGNED if model.vocabulary % 8 else 1), 0.0, moved)


def _update(request: Request, model: families.Model) -> Load:
    """Return the optimizer, and the conversions of autocast: each weight to 16 bits, and its gradient back.

    A frozen weight has no gradient, and one of four bits is counted with the layers.
    """
    count = families.parameters(model)
    if request.adapters:
        trainable, element = memory.adapter_parameters(request, model), memory.adapter_element(request)
        converted = 6.0 * (count["total"] - (count["linear"] if request.task == "qlora" else 0)) + 12.0 * trainable
    else:
        trainable, element = count["total"], request.weight
        converted = 12.0 * trainable
    return Load(moved=_optimizer_bytes(request, trainable, element) + (converted if request.dtype == "amp" else 0))


def _decoding(request: Request, model: families.Model) -> Work:
    count, element = families.parameters(model), request.element
    divided = request.gpus if request.sharing == "tensor" else 1
    cache = request.batch * families.cache_bytes(model, request.sequence + request.new_tokens // 2, element)
    # All experts are read when a batch has several tokens.
    weights = count["total"] * element - count["linear"] * (element - (model.weight_bytes or element))
    # Each token appends to keys and values (read, written) and reads them; shared ones are first repeated for each head.
    group = model.heads // model.kv_heads
    moved = (3.0 + (2.0 * group if group > 1 else 0.0)) * cache / divided * request.new_tokens
    beside = weights / divided * request.new_tokens
    operations = 2.0 * (count["active"] + count["head"]) * request.batch * request.new_tokens / divided / MATRIX
    load = Load(0.0, operations, moved, beside) if request.dtype == "fp32" else Load(operations, 0.0, moved, beside)
    host = kernels.count(model) * HOST_US * request.new_tokens / 1e6
    return Work((load,), (), host, 0.0, request.batch * request.new_tokens, "tokens")


def _net(request: Request) -> Work:
    net = t.cast(t.Any, request.net)
    steps, element = (request.tokens if request.recurrent else request.batch), request.element
    weight = request.weight
    if net.layers:
        shape = (net.layers, steps, element, request.kernels_type, request.channels_last)
        forward = convolutions.forward(*shape, request.trains)
        backward = convolutions.backward(*shape) if request.trains else []
    else:
        # cuDNN multiplies fp32 in TF32 by default; so do recurrent layers.
        forward = [Load(float(net.flops * steps) / UNKNOWN, 0.0, UNKNOWN_MOVED / 3 * net.saved * element * steps)]
        backward = [load.times(2) for load in forward]
    if request.compile:
        forward, backward = (convolutions.compiled(loads, request.trains) for loads in (forward, backward))
    # Autocast converts the weights of each convolution, which are a fourth of the kernels of a layer.
    host = net.kernels * (1.25 if request.autocast else 1.0) * HOST_US / 1e6
    host *= COMPILED_STARTS if request.compile else 1.0
    unit, items = (
        ("tokens", steps) if request.recurrent else ("images" if request.image else "sequences", request.batch)
    )
    if not request.trains:
        return Work((*forward, Load(moved=net.parameters * weight)), (), host, 0.0, items, unit)
    update = _optimizer_bytes(request, net.parameters, weight) + net.parameters * weight
    return Work(tuple(forward), (*backward, Load(moved=update)), host, host, items, unit, messages_s(request))


def messages_s(request: Request) -> float:
    """Return the seconds of the messages between GPUs; 0 where their rate is not known.

    DDP sums gradients, FSDP gathers weights twice and spreads sums once. Nothing hid them on two H200 (docs/gpu_fit.md, "Several GPUs").
    """
    if not request.all_reduce_gb_s or not request.trains:
        return 0.0
    if request.adapters:
        size = memory.adapter_parameters(request, t.cast(families.Model, request.model)) * memory.adapter_element(
            request
        )
    else:
        size = request.weight * (request.net.parameters if request.net else families.parameters(request.model)["total"])  # type: ignore[arg-type]
    passes = 3 if request.sharing == "fsdp" else 2
    return passes * (request.gpus - 1) / request.gpus * size / (request.all_reduce_gb_s * 1e9)


def prompt_s(request: Request, rates: Rates) -> float | None:
    """Return the seconds of a prompt's own pass, before the first new token; None where there is none."""
    if not request.new_tokens:
        return None
    whole = predict(request._replace(new_tokens=0), rates).step_s
    # The head is calculated for the last token alone.
    vocabulary = request.model.vocabulary if request.model else 0
    head = 2.0 * vocabulary * (request.model.width if request.model else 0) * request.tokens / MATRIX
    saved = head / ((rates.fp32 if request.dtype == "fp32" else rates.bf16) * 1e12)
    return max(0.2 * whole, whole - saved - request.element * request.tokens * vocabulary / (rates.copy * 1e9))


def predict(request: Request, rates: Rates, power_w: float | None = None) -> Speed:
    """Return the speed on a card."""
    work = measure(request)

    def card(loads: t.Iterable[Load]) -> Times:
        return Times().plus(*(seconds(load, rates, request.dtype) for load in loads))

    first, rest = card(work.first), card(work.rest)
    both = first.plus(rest)
    host = work.host_first_s + work.host_rest_s
    step = max(max(sum(first), work.host_first_s) + sum(rest), host) + work.wait_s
    limits = {"matrix units": both.products, "bandwidth": both.moving, "multiprocessors": both.cycles}
    decides = "host" if max(host, work.wait_s) > sum(both) else max(limits, key=lambda name: limits[name])
    spread = SPREAD[rates.basis]
    joules = (
        None
        if power_w is None
        else request.gpus * power_w * (IDLE_POWER * step + BUSY_POWER * (both.products + both.cycles))
    )
    low, high = step / spread, step * spread
    items = work.items * (request.gpus if request.sharing in ("ddp", "fsdp") else 1)
    return Speed(step, low, high, items / step, items / high, items / low, work.unit, decides, joules)

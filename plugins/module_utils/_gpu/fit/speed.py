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

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import families, kernels, memory
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.request import Request

# From our own measurements on H100 (docs/gpu_fit.md). Layers and attention reach a share of the rate of large products, attention
# less with a mask; kernels without products reach a share of the rate of copies.
MATRIX = 0.897
ATTENTION = 0.57
MASKED_ATTENTION = 0.218
STREAM = 0.697
# Bytes that are moved for each logit in training: conversions, the softmax, and two gradients.
LOGIT_BYTES = 66.5
# The host needs so many microseconds to start a kernel of the forward pass, and of the backward pass for it.
HOST_US = 22.6
# Convolutions reach this share, and layers between them read and write each saved byte so many times.
CONVOLUTION = 0.67
NET_MOVED = 13.4
# A compiler fuses kernels without products: the share of their bytes, and of the starts, that remains.
COMPILED, COMPILED_STARTS = 0.19, 0.3
# Convolutions without channels_last convert what they read and write: bytes for each byte that is saved.
PLANAR_MOVED = 13.2
# Attention calculates its scores again in the backward pass.
ATTENTION_BACKWARD = 2.5
# Tensor cores need rows of a multiple of 8 elements; other products are so many times slower.
UNALIGNED = 3.5
# Share of the card's rate that a data sheet's figure reaches in a large product and in a copy, without a baseline.
# Products that the card's power does not limit reach 0.90 on an H200 (on zeros); without tensor cores an H100 reached 0.83.
SHEET = {"matrix": 0.90, "plain": 0.83, "copy": 0.90}
# Half width of the interval of the speed, as a factor.
SPREAD = {"baseline": 1.5, "sheet": 1.9}
# Share of the power limit: least, and what full use of matrix units or memory adds.
IDLE_POWER, BUSY_POWER = 0.62, 0.34


class Load(t.NamedTuple):
    """What a card does, as for large products and copies: operations with tensor cores of the dtype, without them, and bytes.

    *beside* are bytes that products read and write while they calculate.
    """

    tensor: float = 0.0
    plain: float = 0.0
    moved: float = 0.0
    beside: float = 0.0

    def times(self, factor: float) -> Load:
        """Return a multiple."""
        return Load(*(part * factor for part in self))

    def plus(self, *others: Load) -> Load:
        """Return the sum."""
        return Load(*(sum(parts) for parts in zip(self, *others)))


class Work(t.NamedTuple):
    """What one step does on one GPU: in the forward pass of the layers, in all that follows, and the host's seconds for both."""

    first: Load
    rest: Load
    host_first_s: float
    host_rest_s: float
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
    """Return operations of attention in one forward pass, as of large products.

    Later tokens are not attended to: half of the square. With a mask, the whole square is calculated.
    """
    length = tokens / request.batch
    square = 4.0 * tokens * length * model.heads * model.head_dim
    half = 0.5 if model.traits.generates else 1.0
    masked = sum(window is not None and window < request.sequence for window in model.windows)
    return square * (masked / MASKED_ATTENTION + (len(model.windows) - masked) * half / ATTENTION)


def _optimizer_bytes(request: Request, trainable: float, element: int) -> float:
    if not request.trains:
        return 0.0
    touched = {"sgd_plain": 3, "sgd": 5, "adamw": 7, "adamw_foreach": 17, "adamw_8bit": 4.5, "adafactor": 19}
    if request.offload == "optimizer":
        return 2.0 * trainable * element
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
        return Work(forward.plus(_head(request, model, 1)).times(divided), Load(), host, 0.0, items, unit)
    again = 1 if request.checkpointing else 0
    # A frozen head needs no gradient of its weights.
    head = _head(request, model, 2 if request.adapters else 3)
    rest = backward.plus(forward.times(again), head, _update(request, model))
    return Work(forward.times(divided), rest.times(divided), host, host * (1 + again), items, unit)


def _layers(request: Request, model: families.Model, adapters: t.Sequence[tuple[int, int]]) -> tuple[Load, Load]:
    """Return the forward and the backward pass of all layers."""
    tokens, count = request.tokens, families.parameters(model)
    linear = 2.0 * count["active"] * tokens / MATRIX
    attention = _attention(request, model, tokens)
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
    if request.dtype == "fp32":
        return (
            Load(0.0, linear + attention + added, moved[0], beside[0]),
            Load(0.0, linear * passes + attention * ATTENTION_BACKWARD + 2 * added, moved[1], beside[1]),
        )
    plain = linear if request.dtype == "amp" and model.experts > 1 else 0.0
    return (
        Load(linear - plain + attention, plain + added, moved[0], beside[0]),
        Load(
            (linear - plain) * passes + attention * ATTENTION_BACKWARD, plain * passes + 2 * added, moved[1], beside[1]
        ),
    )


def _head(request: Request, model: families.Model, passes: int) -> Load:
    """Return the products with the vocabulary, and in training the loss."""
    outputs = 0 if model.labels else model.vocabulary
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
    return Work(load, Load(), host, 0.0, request.batch * request.new_tokens, "tokens")


def _net(request: Request) -> Work:
    net = t.cast(t.Any, request.net)
    steps, element = (request.tokens if request.recurrent else request.batch), request.element
    # cuDNN multiplies fp32 in TF32 by default; so do recurrent layers.
    moved = NET_MOVED + (0.0 if request.channels_last or request.recurrent or not net.outputs else PLANAR_MOVED)
    # A convolution reads about as much as it writes, while it calculates.
    beside = 2.0 * net.outputs * element * steps
    forward = Load(float(net.flops * steps) / CONVOLUTION, 0.0, moved / 3 * net.saved * element * steps, beside)
    weight = request.weight
    # Autocast converts the weights of each convolution, which are a fourth of the kernels of a layer.
    host = net.kernels * (1.25 if request.autocast else 1.0) * HOST_US / 1e6
    unit, items = (
        ("tokens", steps) if request.recurrent else ("images" if request.image else "sequences", request.batch)
    )
    if not request.trains:
        return Work(forward.plus(Load(moved=net.parameters * weight)), Load(), host, 0.0, items, unit)
    update = _optimizer_bytes(request, net.parameters, weight) + net.parameters * weight
    return Work(forward, forward.times(2).plus(Load(moved=update)), host, host, items, unit)


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
    tensor = rates.tf32 if request.dtype == "fp32" else rates.bf16

    def seconds(load: Load) -> tuple[float, float]:
        products = load.tensor / (tensor * 1e12) + load.plain / (rates.fp32 * 1e12)
        # What products read and write they hide, or it hides them.
        beside = load.beside / (rates.copy * 1e9)
        moving = load.moved / (rates.copy * 1e9)
        return (products, moving) if products >= beside else (0.0, moving + beside)

    first, rest = seconds(work.first), seconds(work.rest)
    products, moving = first[0] + rest[0], first[1] + rest[1]
    card, host = products + moving, work.host_first_s + work.host_rest_s
    step = max(max(sum(first), work.host_first_s) + sum(rest), host)
    decides = "host" if host > card else ("matrix units" if products > moving else "bandwidth")
    spread = SPREAD[rates.basis]
    joules = None if power_w is None else request.gpus * power_w * (IDLE_POWER * step + BUSY_POWER * products)
    low, high = step / spread, step * spread
    items = work.items * (request.gpus if request.sharing in ("ddp", "fsdp") else 1)
    return Speed(step, low, high, items / step, items / high, items / low, work.unit, decides, joules)

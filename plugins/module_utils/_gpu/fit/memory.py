# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The memory of a job by part, with an interval, from its shapes alone. Pure.

The peak is the highest of these phases: the start of the backward pass (all activations, and the gradient of the logits), its end
(all gradients), and the optimizer's step. An inference has its peak in the prompt, with the cache, or with its last new token.
"""

from __future__ import annotations

import math
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import families, quantized
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.architectures import INNER, Saved
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.request import OPTIMIZERS, Request

PARTS = ("weights", "gradients", "optimizer", "activations", "kv_cache", "workspace", "allocator", "context")
MIB = 2**20

# Measured on the ten tuning configurations (docs/gpu_fit.md): least, usual and most share of what is not held between two steps
# that the allocator holds besides. cuBLAS keeps 32 MiB.
ALLOCATOR = (0.04, 0.21, 0.65)
# A context of CUDA with the kernels of PyTorch: 0.75 GiB on an H100. Cards with fewer multiprocessors need less.
CONTEXT_MIB = (350, 720, 820)
WORKSPACE_MIB = 34
QUANTIZED_BYTES = quantized.NF4_TWICE
# How far tensors may be from the formula, by what it is based on; each unknown field of a configuration adds a part.
WIDTH = {"formula": 0.10, "table": 0.08, "traced": 0.15}
UNKNOWN_FIELD = 0.15
# Tokens of a part of a chunked loss, and bytes of a logit where a compiler fuses the loss (gpt2-compiled of docs/gpu_fit.md).
CHUNK = 1024
# DDP's buckets hold the gradients again, and twice while it orders them again in the second step (measured on two H200).
BUCKETS = 2
COMPILED_LOGIT = 6.8


class Memory(t.NamedTuple):
    """Bytes of each part, their sum, and the interval of the sum. *tensors* is the allocator's peak without its own overhead."""

    parts: dict[str, int]
    total: int
    low: int
    high: int
    tensors: int


def basis_of(request: Request) -> str:
    """Return what an estimate without tracing is based on: networks of torchvision are in a table."""
    return "table" if request.net is not None and not request.recurrent else "formula"


def estimate(request: Request, basis: str = "formula") -> Memory:
    """Return the memory of one GPU."""
    if request.net is not None:
        phases = _net(request)
    elif request.trains:
        phases = _training(request)
    else:
        phases = [_inference(request)]
    for phase in phases:
        phase["workspace"] += WORKSPACE_MIB * MIB
    return enclose(request, phases, basis)


def enclose(request: Request, phases: t.Sequence[dict[str, float]], basis: str) -> Memory:
    """Return the highest of the phases, with the allocator, the context and the interval.

    Each end of the interval is the highest of its own, so that none falls where another phase becomes the highest.
    """
    found = [_enclose(request, phase, basis) for phase in phases]
    highest = max(found, key=lambda phase: phase.total)
    return highest._replace(
        low=max(phase.low for phase in found),
        high=max(phase.high for phase in found),
        tensors=max(phase.tensors for phase in found),
    )


def _enclose(request: Request, parts: dict[str, float], basis: str) -> Memory:
    whole = {name: math.ceil(parts.get(name, 0)) for name in PARTS}
    tensors = sum(whole.values())
    passing = whole["activations"] + whole["workspace"] + whole["kv_cache"] + whole["gradients"]
    whole["allocator"] = math.ceil(ALLOCATOR[1] * passing)
    whole["context"] = CONTEXT_MIB[1] * MIB
    width = WIDTH[basis] + UNKNOWN_FIELD * len(request.model.unknown if request.model else ())
    # What is known exactly, weights and the state of optimizers, is as sure as the allocator's rounding.
    unsure = whole["activations"] + whole["workspace"]
    low = tensors - min(width, 0.9) * unsure - 0.01 * tensors + ALLOCATOR[0] * passing + CONTEXT_MIB[0] * MIB
    high = tensors + width * unsure + 0.01 * tensors + ALLOCATOR[2] * passing + CONTEXT_MIB[2] * MIB
    return Memory(whole, sum(whole.values()), max(0, math.floor(low)), math.ceil(high), tensors)


def _parts(**given: float) -> dict[str, float]:
    return {**dict.fromkeys(PARTS, 0.0), **given}


def adapter_parameters(request: Request, model: families.Model) -> int:
    """Return the parameters of LoRA's adapters."""
    return (
        model.layers * request.lora_rank * sum(inputs + outputs for inputs, outputs in adapter_shapes(request, model))
    )


def adapter_element(request: Request) -> int:
    """Return the bytes of an adapter's weight: peft keeps them in fp32; QLoRA all in 16 bits (unsloth, torchtune) has them in bf16."""
    return 2 if request.task == "qlora" and request.weight == 2 else 4


def adapter_shapes(request: Request, model: families.Model) -> list[tuple[int, int]]:
    """Return inputs and outputs of each linear layer that gets an adapter."""
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    if request.lora_targets == "attention":
        return [(model.width, queries), (model.width, keys)]
    attention = [(model.width, queries), (model.width, keys), (model.width, keys), (queries, model.width)]
    up = [(model.width, model.inner)] * (2 if model.traits.gated else 1)
    return [*attention, *up, (model.inner, model.width)]


def windowed(request: Request, model: families.Model) -> bool:
    """Return whether attention gets a mask, because a window is shorter than the sequence."""
    return any(window is not None and window < request.sequence for window in model.windows)


def _compiled(family: families.Family, request: Request) -> Saved:
    """Return what a compiled layer saves: norms and activations are calculated again from the inputs of the layer's products."""
    return Saved(8 if request.weight == 4 else 4, request.element * (2 if family.gated else 1))


def layer_bytes(request: Request, model: families.Model) -> float:
    """Return what a layer saves for the backward pass, for one token."""
    family, element = model.traits, request.element
    # Autocast has LayerNorm in fp32, and each linear layer converts what it gets; norms of Llama convert by themselves.
    mode = {"bf16": 0, "fp16": 0, "bf16_amp": int(family.norm_biases), "amp": 1, "fp32": 2}[request.dtype]
    saved = _compiled(family, request) if request.compile and not request.adapters else family.saved[mode]
    if not family.gated and not (request.compile and not request.adapters):
        saved = saved._replace(inner=INNER[model.fused][mode])
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    # With a mask, keys and values are repeated for each head, and attention in bf16 has another kernel.
    repeated = 2 * queries if windowed(request, model) else 2 * keys
    attention = element * (2 * queries + repeated) + 4 * model.heads + saved.heads * (queries + keys)
    if request.adapters:
        # Frozen layers save nothing of their input; adapters do, in their own type.
        adapters = _adapter_inputs(request, model)
        # A mixture calculates the experts of a token, and keeps the output of each for its weight.
        factor = 3.0 if family.gated else saved.inner / element - 1
        experts = factor * model.active_inner + (model.active * model.width if model.experts > 1 else 0)
        # Experts are not in autocast: they work in the type of their weights.
        inner = 4 if request.dtype == "amp" and model.experts > 1 else element
        return 4 * model.norms * model.width + attention + experts * inner + adapters
    if model.experts > 1:
        # Experts are not in autocast: they work in the type of their weights.
        inner = 4 if request.dtype == "amp" else element
        chosen = inner * (2 * model.active * model.width + 4 * model.active_inner)
        return (saved.width - 2 * (mode == 1)) * model.width + attention + chosen + 8 * model.experts
    return saved.width * model.width + attention + saved.inner * model.inner + 16


def _adapter_inputs(request: Request, model: families.Model) -> float:
    """Return what the adapters of a layer save for one token: each converts its input, but where it has the type already.

    Those in the type of the layer save one input for queries, keys and values, and one for a gate and what it opens; attention has
    saved its output.
    """
    element, shapes = adapter_element(request), adapter_shapes(request, model)
    inputs = sum(inputs for inputs, _outputs in shapes)
    if element == request.element:
        inputs = model.width if request.lora_targets == "attention" else 2 * model.width + model.inner
    return float(element * (inputs + request.lora_rank * len(shapes)))


def _training(request: Request) -> list[dict[str, float]]:
    model = t.cast(families.Model, request.model)
    count, share = families.parameters(model), _shares(request)
    element = request.weight
    states, temporary = OPTIMIZERS[request.optimizer]
    if request.offload == "optimizer":
        # The host has the states, and steps.
        states = temporary = 0.0
    trainable = adapter_parameters(request, model) if request.adapters else count["total"]
    trained = adapter_element(request) if request.adapters else element
    small = QUANTIZED_BYTES if request.task == "qlora" else model.weight_bytes
    four_bits = count["linear"] if small else 0
    weights = ((count["total"] - four_bits) * element + four_bits * small) * share["weights"]
    weights += trainable * trained * share["weights"] if request.adapters else 0
    fixed = _parts(weights=weights, optimizer=trainable * _state_bytes(request, states, trained) * share["optimizer"])
    gradients = trainable * trained * share["gradients"]
    if request.optimizer_in_backward and not request.adapters:
        # One gradient at a time: the largest is that of the embeddings, or of a linear layer.
        gradients = float(model.width * max(model.vocabulary, model.inner) * trained)
    tokens = request.tokens
    layer = layer_bytes(request, model) * tokens * share["activations"]
    # Under autocast each weight has a copy in bf16 until the backward pass has used it; one of four bits is written again in each pass.
    copied = request.dtype == "amp" and model.experts == 1 and not four_bits
    copies = 2.0 * count["linear"] * share["weights"] if copied else 0.0
    residual = request.weight
    boundary = model.layers * tokens * model.width * residual
    kept = boundary if request.checkpointing else model.layers * layer
    if request.offload == "activations":
        kept, boundary = 0.0, 0
    last = tokens * model.width * (8 if element == 2 else 10)
    head = _head(request, model, tokens)
    if request.adapters and request.dtype == "amp":
        # A frozen head is converted to 16 bits for each product.
        head += 2.0 * model.logits * model.width
    mask = request.batch * request.sequence**2 if windowed(request, model) else 0
    gathered = _gathered(request, model, element)
    if four_bits:
        # One layer's largest weight in 16 bits, for its product.
        gathered += 2.0 * model.width * model.inner
    # The embedding's gradient is added to that of the head, out of place, when both are one weight.
    tied = (
        2.0 * model.vocabulary * model.width * trained if model.tied and model.logits and not request.adapters else 0.0
    )
    again = 1.5 * layer if request.checkpointing else layer
    first_layer = gradients / model.layers
    phases = [
        {
            **fixed,
            "activations": kept + last + mask + (0 if request.checkpointing else copies),
            "workspace": head + gathered,
        },
        {**fixed, "activations": kept + last + copies + mask, "workspace": 0.65 * layer + gathered},
        {
            **fixed,
            "gradients": gradients - first_layer,
            "activations": boundary / model.layers + again + mask,
            "workspace": gathered,
        },
        {**fixed, "gradients": gradients, "workspace": tied + gathered},
        {**fixed, "gradients": gradients, "workspace": trainable * trained * temporary * share["optimizer"]},
    ]
    if request.sharing == "ddp":
        phases = [{**phase, "workspace": phase.get("workspace", 0) + BUCKETS * gradients} for phase in phases]
    return [{**_parts(), **phase} for phase in phases]


def _state_bytes(request: Request, states: float, element: int) -> float:
    """Return the state of one trained weight: it has the weight's type, or eight bits and a scale of 32 for each 256.

    That of a paged optimizer is in memory that the driver moves to the host where the card's is short: PyTorch's allocator has none.
    """
    if request.optimizer.startswith("paged_"):
        return 0.0
    if request.optimizer.endswith("_8bit") and states:
        return 2 * (1 + 4 / 256)
    return states * element


def _gathered(request: Request, model: families.Model, element: int) -> float:
    """Return what FSDP has whole at once: a layer and the next one, and embeddings with the head from the first layer to the last."""
    if request.sharing != "fsdp":
        return 0.0
    count = families.parameters(model)
    layer = count["linear"] / model.layers * (QUANTIZED_BYTES if request.task == "qlora" else element)
    return 2.0 * layer + element * (count["embeddings"] + count["head"])


def _head(request: Request, model: families.Model, tokens: int) -> float:
    """Return the logits of all tokens at the start of the backward pass: probabilities, and two gradients, in fp32."""
    if model.labels:
        return 12.0 * _labelled(request, model, tokens)
    if request.chunked_loss:
        # A part of the logits, and the gradient of the head's weight, which grows with each.
        return (
            12.0 * min(tokens, CHUNK) * model.vocabulary
            + (0 if request.adapters else request.weight) * model.width * model.vocabulary
        )
    return (COMPILED_LOGIT if request.compile else 12.0) * tokens * model.logits


def _labelled(request: Request, model: families.Model, tokens: int) -> int:
    return (tokens if model.each_token else request.batch) * model.labels


def _shares(request: Request) -> dict[str, float]:
    """Return the part that one GPU holds of each."""
    part = 1.0 / request.gpus
    if request.sharing == "fsdp":
        return {"weights": part, "gradients": part, "optimizer": part, "activations": 1.0}
    if request.sharing == "tensor":
        return {"weights": part, "gradients": part, "optimizer": part, "activations": max(part, 0.35)}
    return {"weights": 1.0, "gradients": 1.0, "optimizer": 1.0, "activations": 1.0}


def _inference(request: Request) -> dict[str, float]:
    model = t.cast(families.Model, request.model)
    count, share, element = families.parameters(model), _shares(request), request.element
    whole_element = 4 if request.dtype == "amp" else element
    weights = float(count["total"] - count["linear"]) * whole_element + count["linear"] * (
        model.weight_bytes or whole_element
    )
    weights *= share["weights"]
    heads = 1.0 / request.gpus if request.sharing == "tensor" else 1.0
    context = request.sequence + request.new_tokens
    cache = request.batch * families.cache_bytes(model, context, element) * heads if request.new_tokens else 0.0
    tokens = request.tokens
    inner = model.active_inner + (model.inner if model.experts > 1 else 0)
    gated = 3 if model.traits.gated else 2
    layer = tokens * (gated * inner * share["activations"] + 4 * model.width) * element
    if windowed(request, model):
        # A mask, and keys and values repeated for each head.
        layer = max(layer, tokens * (4 * model.heads * model.head_dim + 2 * model.width) * element)
        layer += request.batch * request.sequence**2
    outputs = (request.batch if request.new_tokens else tokens) * max(model.logits, 1)
    logits = float(_labelled(request, model, tokens) if model.labels else outputs) * element
    # Autocast keeps a copy of each weight in 16 bits for its whole block, without a backward pass as well.
    copies = 2.0 * count["linear"] * share["weights"] if request.dtype == "amp" and model.experts == 1 else 0.0
    gathered = _gathered(request, model, 4 if request.dtype == "amp" else element)
    return _parts(weights=weights, kv_cache=cache, activations=layer + copies, workspace=logits + gathered)


def _net(request: Request) -> list[dict[str, float]]:
    net, steps = t.cast(t.Any, request.net), request.tokens if request.recurrent else request.batch
    element = request.element
    if not request.trains:
        weights = net.parameters * (4 if request.dtype == "amp" else element)
        copies = 2 * net.parameters if request.dtype == "amp" else 0
        return [_parts(weights=weights, activations=net.largest * steps * element + copies)]
    # In bf16 the weights are, too; under autocast they are in fp32, with a copy.
    weight = request.weight
    states, temporary = OPTIMIZERS[request.optimizer]
    if request.offload == "optimizer":
        states = temporary = 0.0
    fixed = _parts(weights=net.parameters * weight, optimizer=net.parameters * _state_bytes(request, states, weight))
    copies = 2.0 * net.parameters if request.dtype == "amp" else 0.0
    kept = (net.saved * element + net.indices * 8) * steps
    gradients = float(net.parameters * weight)
    phases = [
        {**fixed, "activations": kept + copies, "workspace": 0.01 * kept},
        {
            **fixed,
            "gradients": gradients,
            "workspace": net.parameters * weight * temporary + net.largest * steps * element,
        },
    ]
    if request.sharing == "ddp":
        phases = [{**phase, "workspace": phase["workspace"] + BUCKETS * gradients} for phase in phases]
    return [{**_parts(), **phase} for phase in phases]

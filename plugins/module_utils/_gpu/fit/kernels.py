# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernels of a layer besides its matrix products: how many there are, and the bytes that they read and write. Pure.

They were counted in the code of transformers in eager mode, operation by operation. A product with a scalar of two bytes reads two
and writes two for each element, a sum reads four and writes two. Only the starts of adapters and of layers of four bits were tuned.
"""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import families


class Pass(t.NamedTuple):
    """Bytes of one pass for each element of the residual stream, of the intermediate layer, and of queries and keys."""

    width: float
    inner: float
    heads: float = 0.0


class Traffic(t.NamedTuple):
    """Bytes that the kernels without matrix products move for a token in both passes."""

    forward: Pass
    backward: Pass


# For bf16 (or fp16), amp and fp32. Norms of Llama are eight kernels in fp32; under autocast each linear layer converts its input.
_LLAMA = (
    Traffic(Pass(84, 10, 20), Pass(182, 18, 28)),
    Traffic(Pass(106, 10, 36), Pass(254, 18, 50)),
    Traffic(Pass(80, 20, 40), Pass(212, 36, 56)),
)
# Queries and keys have norms of their own.
_QWEN3 = (
    Traffic(Pass(84, 10, 56), Pass(182, 18, 104)),
    Traffic(Pass(106, 10, 64), Pass(254, 18, 126)),
    Traffic(Pass(80, 20, 68), Pass(212, 36, 132)),
)
_GEMMA = (
    Traffic(Pass(172, 10, 60), Pass(350, 18, 108)),
    Traffic(Pass(162, 10, 64), Pass(406, 18, 126)),
    Traffic(Pass(136, 20, 68), Pass(364, 36, 132)),
)
# GELU is eight kernels, of which autocast has the power in fp32.
_GPT2 = (
    Traffic(Pass(34, 36), Pass(68, 58)),
    Traffic(Pass(62, 76), Pass(124, 122)),
    Traffic(Pass(68, 72), Pass(136, 116)),
)
_BERT = (
    Traffic(Pass(30, 4), Pass(64, 8)),
    Traffic(Pass(70, 4), Pass(156, 8)),
    Traffic(Pass(60, 8), Pass(128, 16)),
)
_VIT = (
    Traffic(Pass(20, 4), Pass(54, 8)),
    Traffic(Pass(60, 4), Pass(134, 8)),
    Traffic(Pass(40, 8), Pass(108, 16)),
)
# The kernels that the host starts for a layer in the forward pass, and what they move.
_COUNTED: dict[str, tuple[int, tuple[Traffic, Traffic, Traffic]]] = {
    "bert": (15, _BERT),
    "gemma3_text": (85, _GEMMA),
    "gpt2": (19, _GPT2),
    "llama": (40, _LLAMA),
    "mistral": (40, _LLAMA),
    "mixtral": (61, _LLAMA),
    "qwen2": (40, _LLAMA),
    "qwen3": (56, _QWEN3),
    "vit": (13, _VIT),
}
# Tokens are gathered for their experts, weighted, and added up: bytes for each element of the width and each expert of a token.
_ROUTED = (28, 40)
# An adapter of LoRA converts its input, scales its output, and adds it: kernels as the host sees them (tuned),
# and bytes of inputs and of outputs, in fp32.
ADAPTER_KERNELS = 16.4
# A linear layer of four bits converts its scales and its weights; the host needs as long as for so many kernels (docs/gpu_fit.md).
FOUR_BIT_KERNELS = 12.7
# Embeddings, positions, a mask, the last norm, the head, and the choice of a token.
_OUTSIDE = 20
_ADAPTER = ((10, 28), (15, 42))


def count(model: families.Model, adapters: int = 0, four_bits: bool = False) -> float:
    """Return the kernels of a forward pass, with so many adapters in each layer."""
    linear = (7 if model.traits.gated else 6) * FOUR_BIT_KERNELS if four_bits else 0
    return model.layers * (_COUNTED[model.traits.like][0] + ADAPTER_KERNELS * adapters + linear) + _OUTSIDE


def sides(model: families.Model) -> float:
    """Return the elements that the linear layers of one layer read and write for a token in a forward pass."""
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    inner = (3 if model.traits.gated else 2) * (model.width + model.inner) * max(model.active, 1)
    return 2 * (model.width + queries) + 2 * (model.width + keys) + inner


def _fused(layer: Traffic, plain: Traffic) -> Traffic:
    """Return the traffic of a layer with an activation of one kernel."""
    return Traffic(
        layer.forward._replace(inner=plain.forward.inner), layer.backward._replace(inner=plain.backward.inner)
    )


def moved(model: families.Model, dtype: str, adapters: t.Sequence[tuple[int, int]] = ()) -> tuple[float, float]:
    """Return the bytes of all layers for a token in the forward and in the backward pass.

    :param adapters: inputs and outputs of each linear layer with an adapter.
    """
    mode = {"bf16": 0, "fp16": 0, "bf16_amp": 0, "amp": 1, "fp32": 2}[dtype]
    traffic = _COUNTED[model.traits.like][1]
    if model.traits.like == "gpt2" and model.fused:
        traffic = (_fused(traffic[0], _VIT[0]), _fused(traffic[1], _VIT[1]), _fused(traffic[2], _VIT[2]))
    # Experts are not in autocast.
    inner = traffic[2 if mode == 1 and model.experts > 1 else mode]
    queries_and_keys = (model.heads + model.kv_heads) * model.head_dim
    chosen = model.active if model.experts > 1 else 0
    found = []
    for number in (0, 1):
        layer = traffic[mode][number].width * model.width + traffic[mode][number].heads * queries_and_keys
        layer += inner[number].inner * model.inner * max(chosen, 1) + _ROUTED[number] * chosen * model.width
        layer += sum(_ADAPTER[number][0] * inputs + _ADAPTER[number][1] * outputs for inputs, outputs in adapters)
        found.append(model.layers * layer)
    return found[0], found[1]

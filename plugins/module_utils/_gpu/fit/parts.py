# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parts of a model that are not those of a plain layer with attention: experts, latent and linear attention. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import wording
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.architectures import LATENT, LINEAR
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

LAYERS = 10_000


class More(t.TypedDict, total=False):
    """The fields of a model that follow from several fields of its configuration."""

    attention_biases: bool
    output_biases: bool
    mlp_biases: bool
    shared_inner: int
    dense_layers: int
    dense_inner: int
    attention: int
    kept: int
    linear_layers: int
    linear_attention: int
    more_norms: int
    windows: tuple[None, ...]


def whole(value: t.Any, name: str) -> int:
    """Return a size of a model.

    :raises Refusal: it is none.
    """
    most = LAYERS if "layer" in name else 2**31 - 1
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
        raise Refusal(f"`model`: its {name} is {wording.short(value)}: give a whole number from 1 to {most}")
    return value


def experts(name: str, given: JsonObject, sizes: dict[str, int]) -> More:
    """Return the layers of a mixture: the inner width is that of an expert."""
    dense = sizes.get("inner", 0)
    inner = sizes.pop("expert_inner", dense)
    several = given.get("n_shared_experts")
    shared = given.get("shared_expert_intermediate_size", whole(several, "n_shared_experts") * inner if several else 0)
    sizes["inner"] = inner
    first = given.get("first_k_dense_replace", 0)
    if name == "llama4_text":
        dense, shared = given["intermediate_size_mlp"], inner or 1
        moe = given.get("moe_layers")
        first = sizes.get("layers", 0) - len(moe) if isinstance(moe, list) else 0
    for value, field in ((shared, "shared experts"), (first, "first_k_dense_replace"), (dense, "intermediate_size")):
        if value:
            whole(value, field)
    return {"shared_inner": shared, "dense_layers": first, "dense_inner": dense if first else 0}


def latent(given: JsonObject, sizes: dict[str, int]) -> More:
    """Return attention with a latent vector in place of keys and values: a server keeps that, and the part with positions."""
    low, rope, plain, value = (whole(given.get(field), field) for field in (LATENT[1], LATENT[3], LATENT[2], LATENT[5]))
    heads, width, queries = sizes["heads"], sizes["width"], given.get("q_lora_rank")
    sizes["head_dim"] = plain + rope
    if queries:
        whole(queries, "q_lora_rank")
    count = heads * (plain + rope) * (queries or width) + ((width + 1) * queries if queries else 0)
    count += width * (low + rope) + low + low * heads * (plain + value) + heads * value * width
    return {"attention": count, "kept": low + rope}


def linear(given: JsonObject, sizes: dict[str, int]) -> More:
    """Return layers with linear attention beside those with gated attention."""
    kernel, key, keys, values, value = (whole(given.get(field), field) for field in LINEAR)
    width, queries = sizes["width"], sizes["heads"] * sizes["head_dim"]
    key, total = key * keys, value * values
    count = width * (2 * key + 2 * total + 2 * values) + kernel * (2 * key + total) + 2 * values + value + total * width
    kinds = given.get("layer_types")
    kinds = (
        kinds
        if isinstance(kinds, list) and kinds
        else ["full_attention" if number % 4 == 3 else "" for number in range(sizes["layers"])]
    )
    full = sum(kind == "full_attention" for kind in kinds)
    own = width * (3 * queries + 2 * sizes.get("kv_heads", 1) * sizes["head_dim"]) + 2 * sizes["head_dim"]
    return {
        "linear_layers": sizes["layers"] - full,
        "linear_attention": count,
        "attention": own,
        "windows": (None,) * full,
    }

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The shape of a model, from its Hugging Face configuration. Pure.

A family is data: which field of the configuration has which size, and what its layers save for the backward pass. A field that may
change the shape and that no family knows is refused; another unknown field widens the interval. Nothing is guessed.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import heads, parts, quantized, wording
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.architectures import (
    ALIASES,
    COMPOSED,
    DEFAULTS,
    FAMILIES,
    LATENT,
    LINEAR,
    ONE_KERNEL,
    WINDOWS,
    Family,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

# Recurrent layers of PyTorch have no configuration of Hugging Face. This is the collection's own form of it.
LSTM_FIELDS = ("input_size", "hidden_size", "num_layers", "num_labels")

# Fields that leave memory and speed as they are, in the families above. The second half are options of generation in old files.
_HARMLESS = re.compile(
    r"^(_.*|auto_map|torch_dtype|dtype|transformers_version|model_type|task_specific_params|name_or_path"
    r"|(bos|eos|pad|unk|sep|cls|mask|decoder_start|forced_bos|forced_eos)_token_id|initializer_(range|factor)"
    r"|.*_(dropout|dropout_prob|pdrop|eps|epsilon)|classifier_dropout|rope_.*|partial_rotary_factor|max_position_embeddings|n_ctx"
    r"|n_positions|use_cache|pretraining_tp|scale_attn.*|summary_.*|attention_dropout|router_(aux_loss_coef|jitter_noise)|return_dict"
    r"|id2label|label2id|gradient_checkpointing|encoder_stride|pooler_.*|cache_implementation|query_pre_attn_scalar|problem_type"
    r"|finetuning_task|num_labels|rotary_(pct|emb_base)|.*_jitter_noise|layerdrop|init_std|.*_multiplier|logits_scaling|logit_scale|use_mrope"
    r"|.*drop(out|_path_rate)|clip_qkv|classifier_.*|max_seq_len|eod_token_id|init_device|verbose|original_max_position_embeddings"
    r"|num_beams|num_beam_groups|num_return_sequences|(encoder_)?no_repeat_ngram_size|(max|min)_(length|new_tokens)|top_[kp]|typical_p"
    r"|temperature|do_sample|early_stopping|(length|diversity|repetition)_penalty|bad_words_ids|(begin_)?suppress_tokens"
    r"|bias_dropout_fusion|masked_softmax_fusion|skip_bias_add.*|offset_alibi|.*_in_fp32|initial_context_length"
    r"|remove_invalid_values|return_dict_in_generate|output_scores|tokenizer_class|prefix|torchscript|use_bfloat16|tf_legacy_loss)$"
)
_ACTIVATIONS = ("hidden_act", "hidden_activation", "activation_function", "activation")
# Fields that every family reads, below.
_READ = ("tie_word_embeddings", "layer_types", "architectures", "quantization_config", *_ACTIVATIONS)
# Models that have no configuration of layers of attention alone, and what they need.
_TRACED = (
    'give FILE.py:FUNCTION, which builds it and is traced (docs/gpu_fit.md, "A model of your own", has an example)'
)
_SWITCHES = ("tie_word_embeddings", "use_sliding_window", "attention_bias", "mlp_bias", "qkv_bias")
# What a field must have, because anything else is another shape, or calculates attention with its whole square.
_FUSED = ("sdpa", "flash_attention_2", "flash_attention_3")
_FIXED: dict[str, tuple[t.Any, ...]] = {
    "add_cross_attention": (False,),
    "is_encoder_decoder": (False,),
    "is_decoder": (False,),
    "use_bidirectional_attention": (False,),
    "attn_logit_softcapping": (),
    "final_logit_softcapping": (),
    "do_layer_norm_before": (True,),
    "enable_bias": (True,),
    "use_parallel_residual": (True, False),
    "apply_residual_connection_post_layernorm": (False,),
    "alibi": (False,),
    "parallel_attn": (True,),
    "qk_layernorm": (False,),
    "decoder_sparse_step": (1,),
    "moe_layer_freq": (1,),
    "interleave_moe_layer_step": (1,),
    "mlp_only_layers": ([],),
    "embedding_fraction": (1.0, 1),
    "no_bias": (True,),
    "mlp_type": ("default",),
    "position_embedding_type": ("absolute",),
    "attn_implementation": _FUSED,
    "_attn_implementation": _FUSED,
}
_SHAPES = re.compile(
    r"(size|dim|layer|head|expert|^num_|^n_|latent|rank|window|state|conv|quant|group|kv|chunk|mlp|vision|audio|(?<!con)text|bias|compress|spars"
    r"|_[0-9]?bits?|moe|embed|proj|lora|adapter|depth|width|channel|ffn|block|shared|mtp)"
)
# A field with one of these has no effect.
_EMPTY: tuple[t.Any, ...] = (False, 0, "", [], {})


class Model(t.NamedTuple):
    """The shape of a model with layers of attention. *windows* has the tokens that each layer keeps; None keeps all."""

    family: str
    width: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    windows: tuple[int | None, ...]
    positions: int = 0
    types: int = 0
    image: int = 0
    patch: int = 0
    channels: int = 3
    experts: int = 1
    active: int = 1
    tied: bool = True
    attention_biases: bool = False
    output_biases: bool = False
    mlp_biases: bool = False
    # A head that is not the vocabulary's: outputs of the sequence, or of each token; its biases and other layers; or no head.
    labels: int = 0
    each_token: bool = False
    head_more: int = 0
    headless: bool = False
    unknown: tuple[str, ...] = ()
    # Of a mixture: the inner width of experts that every token uses, layers without experts, and their inner width.
    shared_inner: int = 0
    dense_layers: int = 0
    dense_inner: int = 0
    # Where attention is no product of heads and widths: its parameters in a layer, and the elements that it keeps of a token.
    attention: int = 0
    kept: int = 0
    # Layers with linear attention, which keep no token, and the parameters of one.
    linear_layers: int = 0
    linear_attention: int = 0
    more_norms: int = 0
    # Whether the activation is one kernel.
    fused: bool = True
    # Bytes of a weight of a linear layer where a configuration quantizes them.
    weight_bytes: float = 0.0

    @property
    def traits(self) -> Family:
        """Return the family."""
        return FAMILIES[self.family]

    @property
    def norms(self) -> int:
        """Return the norms of a layer."""
        return self.traits.norms + self.more_norms

    @property
    def logits(self) -> int:
        """Return the outputs of each token for its next one: the vocabulary; 0 with another head, or none."""
        return 0 if self.labels or self.headless else self.vocabulary

    @property
    def active_inner(self) -> int:
        """Return the inner width that a token uses in a layer with experts, or in any layer."""
        return self.active * self.inner + self.shared_inner


def read(config: t.Any) -> Model:
    """Read a configuration.

    :raises Refusal: it is none, or of a shape that no family describes.
    """
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise Refusal(
            "`model` is no configuration of a model (`model_type` is missing): give the config.json of Hugging Face"
        )
    name = config["model_type"]
    if name not in FAMILIES:
        text = config.get("text_config")
        if isinstance(text, dict) and str(text.get("model_type")) in FAMILIES:
            raise Refusal(
                f"`model` is {wording.name(name)}, a model with several parts: write its `text_config` to a file of its own "
                f"for the language model alone, or {_TRACED}"
            )
        raise Refusal(
            f"`model` has the unknown architecture {wording.name(name)}: {_TRACED}; known are {', '.join(sorted([*FAMILIES, 'lstm']))}"
        )
    family = FAMILIES[name]
    given = {**DEFAULTS.get(name, {}), **config}
    given = {ALIASES.get(name, {}).get(key, key): value for key, value in given.items() if value is not None}
    unknown = _unknown(name, family, given)
    sizes = {new: parts.whole(given[old], old) for old, new in family.fields.items() if old in given}
    more, facts = _more(name, given, sizes)
    missing = [
        old
        for old, new in family.fields.items()
        if new not in sizes and new not in ("kv_heads", "head_dim", "expert_inner", "active", "experts")
    ]
    if missing:
        raise Refusal(f"`model` has no {missing[0]}: give the whole config.json of the model")
    sizes.setdefault("kv_heads", sizes["heads"])
    if "head_dim" not in sizes:
        if sizes["width"] % sizes["heads"]:
            raise Refusal(
                f"`model`: its width {sizes['width']} is no multiple of its {sizes['heads']} heads: give `head_dim`"
            )
        sizes["head_dim"] = sizes["width"] // sizes["heads"]
    for part, total, kind in (("kv_heads", "heads", "key and value heads"), ("patch", "image", "pixels of a patch")):
        if part in sizes and sizes[total] % sizes[part]:
            raise Refusal(f"`model`: {sizes[total]} ({total}) is no multiple of {sizes[part]} ({kind}): correct it")
    if sizes.get("active", 1) > sizes.get("experts", 1):
        raise Refusal(
            f"`model`: a token has {sizes['active']} of {sizes['experts']} experts: correct num_experts_per_tok"
        )
    sizes.setdefault("vocabulary", 0)
    if more.get("kept"):
        sizes["kv_heads"] = sizes["heads"]
    biases = "attention_bias" in family.reads and given.get("attention_bias", False)
    options = {
        "tied": given.get("tie_word_embeddings", family.tied),
        "attention_biases": given.get("qkv_bias", True)
        if family.biases or "qkv_bias" in family.reads
        else biases or family.qkv_biases,
        "output_biases": family.biases or (biases and name not in ("glm", "glm4", "glm4_moe")),
        "mlp_biases": family.biases or ("mlp_bias" in family.reads and given.get("mlp_bias", False)),
        "fused": next((given[field] for field in _ACTIVATIONS if field in given), family.activation) not in COMPOSED,
        "unknown": tuple(sorted({*unknown, *facts})),
        "windows": _windows(name, given, sizes["layers"]),
        "weight_bytes": quantized.weight_bytes(given.get("quantization_config")),
    }
    return Model(family=name, **{**options, **heads.of(name, family, given, sizes["width"]), **sizes, **more})


def _more(name: str, given: JsonObject, sizes: dict[str, int]) -> tuple[parts.More, list[str]]:
    """Fill *sizes* with what follows from other fields, and return more of the model, and notes on what was not counted."""
    family = FAMILIES[name]
    more: parts.More = {}
    width = sizes.get("width", 0)
    if name in ("gpt2", "falcon", "bloom", "mpt", "opt"):
        sizes.setdefault("inner", parts.whole(given.get("expansion_ratio", 4), "expansion_ratio") * width)
    if name == "falcon":
        if not given.get("new_decoder_architecture") and given["multi_query"]:
            sizes["kv_heads"] = 1
        more.update({"attention_biases": bool(given.get("bias")), "output_biases": bool(given.get("bias"))})
        # Attention and the inner layer work beside each other, each with a norm of its own in the later architecture.
        norms = given.get("num_ln_in_parallel_attn", 2 if given.get("new_decoder_architecture") else 1)
        more["more_norms"] = parts.whole(norms, "num_ln_in_parallel_attn") - 1
    if name == "glm4_moe" and {"width", "heads"} <= set(sizes):
        sizes.setdefault("head_dim", sizes["width"] // sizes["heads"])
    if name == "stablelm":
        more["attention_biases"] = bool(given.get("use_qkv_bias"))
    if name == "starcoder2" and not given["use_bias"]:
        more.update({"attention_biases": False, "output_biases": False, "mlp_biases": False})
    if name == "gpt_neox" and not given["attention_bias"]:
        more.update({"attention_biases": False, "output_biases": False})
    notes = (
        [f"layers of {name}, which were not measured: those of {family.like} stand for them"] if family.nearby else []
    )
    if "expert_inner" in family.fields.values():
        more.update(parts.experts(name, given, sizes))
    complete = {"width", "heads", "layers", "kv_heads"} <= set(sizes)
    if set(LATENT) <= set(family.reads) and complete:
        more.update(parts.latent(given, sizes))
    if set(LINEAR) <= set(family.reads) and complete:
        more.update(parts.linear(given, sizes))
    if given.get("final_logit_softcapping"):
        notes.append("final_logit_softcapping, which keeps the logits once more")
    return more, notes


def _unknown(name: str, family: Family, given: JsonObject) -> tuple[str, ...]:
    """Return unknown fields that widen the interval.

    :raises Refusal: one of them may change the shape.
    """
    for field, allowed in _FIXED.items():
        if name == "stablelm" and field == "use_parallel_residual":
            allowed = (False,)
        if not allowed and field in family.reads:
            continue
        if field in given and given[field] not in allowed:
            raise Refusal(
                f"`model`: {field} is {wording.short(given[field])}, another shape of {name}: give a Python entry point, which is traced"
            )
    for field in _SWITCHES:
        if not isinstance(given.get(field, False), bool):
            raise Refusal(f"`model`: its {field} is {wording.short(given[field])}: give true or false")
    unknown = [
        field
        for field in given
        if field not in (*family.fields, *family.reads, *_READ, *_FIXED)
        and not _HARMLESS.match(field)
        and given[field] not in _EMPTY
    ]
    for field in unknown:
        if _SHAPES.search(field) or not field.isprintable():
            raise Refusal(
                f"`model`: the field {wording.name(field)} may change the shape, and {name} is not known to have it: "
                "remove it if it has no effect, or give a Python entry point, which is traced"
            )
    # Another activation saves other tensors, where those of both are not known.
    alike = () if family.gated else (*ONE_KERNEL, *COMPOSED)
    unknown += [
        field for field in _ACTIVATIONS if given.get(field, family.activation) not in (family.activation, *alike)
    ]
    return tuple(sorted(unknown))


_QWEN = ("qwen2", "qwen3", "qwen2_moe", "qwen3_moe", "smollm3")


def _windows(name: str, given: JsonObject, layers: int) -> tuple[int | None, ...]:
    """Return the window of each layer."""
    reads = FAMILIES[name].reads
    window = next((given[field] for field in WINDOWS if field in reads and field in given), None)
    if name in _QWEN and not given.get("use_sliding_window"):
        window = None
    kinds = given.get("layer_types")
    if kinds is not None:
        if not isinstance(kinds, list) or len(kinds) != layers:
            raise Refusal(f"`model`: layer_types has to name the kind of each of its {layers} layers: correct it")
        linear = {"linear_attention"} if set(LINEAR) <= set(reads) else set()
        other = sorted(
            {str(kind) for kind in kinds} - {"full_attention", "sliding_attention", "chunked_attention"} - linear
        )
        if other:
            raise Refusal(
                f"`model`: the kind of layer {wording.name(other[0])} is unknown: give a Python entry point, which is traced"
            )
        local = ("sliding_attention", "chunked_attention")
        if set(local) & set(kinds) and not window:
            raise Refusal(
                "`model`: layer_types has layers with a sliding window, and the fields of the window give none: correct one of both"
            )
        return tuple(parts.whole(window, "sliding_window") if kind in local else None for kind in kinds)
    if not window:
        return (None,) * layers
    if name in ("gemma2", "gpt_oss"):
        # Every other layer, from the first.
        return tuple(None if number % 2 else parts.whole(window, "sliding_window") for number in range(layers))
    if name == "modernbert":
        every = parts.whole(given.get("global_attn_every_n_layers", 3), "global_attn_every_n_layers")
        size = parts.whole(window, "local_attention")
        return tuple(size if number % every else None for number in range(layers))
    if name == "olmo3":
        return tuple(None if number % 4 == 3 else parts.whole(window, "sliding_window") for number in range(layers))
    size = parts.whole(window, "sliding_window")
    if "sliding_window_pattern" in reads:
        pattern = parts.whole(given.get("sliding_window_pattern", 6), "sliding_window_pattern")
        return tuple(size if number % pattern else None for number in range(1, layers + 1))
    if name in _QWEN:
        # The layers below this number attend to everything.
        first = given.get("max_window_layers", 28)
        lower = min(layers, first if first == 0 else parts.whole(first, "max_window_layers"))
        return (None,) * lower + (size,) * (layers - lower)
    return (size,) * layers


def parameters(model: Model) -> dict[str, int]:
    """Return the parameters by place: embeddings, those of linear layers, of norms, of the head, and of one token's way."""
    family = model.traits
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    attention = model.width * (queries + 2 * keys) + queries * model.width
    attention = model.attention or attention
    attention += (queries + 2 * keys) * model.attention_biases + model.width * model.output_biases
    sides = 3 if family.gated else 2

    def mlp(inner: int) -> int:
        biases = ((sides - 1) * inner + model.width) * model.mlp_biases
        return sides * model.width * inner + biases

    expert = mlp(model.inner)
    router = model.width * model.experts if model.experts > 1 else 0
    if model.family == "gpt_oss":
        router += model.experts + model.heads
        expert += 2 * model.inner + model.width
    if model.family == "qwen2_moe" or (model.family == "qwen3_next" and model.shared_inner):
        router += model.width
    norm = model.width * (2 if family.norm_biases else 1)
    norms = model.norms * norm
    norms += 2 * model.head_dim * (family.head_norms and not model.attention)
    norms += (queries + keys) * family.wide_norms
    last = norm * (family.last_norm - (not family.first_norm))
    embeddings = (model.vocabulary + model.positions + model.types) * model.width
    embeddings += family.more_positions * bool(model.positions) * model.width + norm * family.embedding_norm
    head = model.head_more + model.width * model.labels
    if family.like == "bert" and model.logits:
        head += model.width * model.width + model.width * family.biases + norm + model.vocabulary
        head += 0 if model.tied else model.vocabulary * model.width
    elif family.classes:
        patches = (model.image // model.patch) ** 2
        embeddings = model.width * (
            model.channels * model.patch**2 + 1 + family.first_tokens + patches + family.first_tokens
        )
    elif not model.tied:
        head += model.logits * (model.width + family.head_bias)
    attentions = model.linear_layers * model.linear_attention + (model.layers - model.linear_layers) * attention
    sparse = model.layers - model.dense_layers
    dense = (
        attentions
        + model.dense_layers * mlp(model.dense_inner)
        + sparse * (router + mlp(model.shared_inner) * bool(model.shared_inner))
    )
    linear = dense + sparse * expert * model.experts
    return {
        "embeddings": embeddings,
        "linear": linear,
        "active": dense + sparse * expert * model.active,
        "norms": model.layers * norms + last,
        "head": head,
        "total": embeddings + linear + model.layers * norms + last + head,
    }


def cache_bytes(model: Model, context: int, element: int) -> int:
    """Return the KV cache of one sequence: each layer keeps keys and values of its own window."""
    kept = sum(min(window or context, context) for window in model.windows)
    return kept * (model.kept or 2 * model.kv_heads * model.head_dim) * element

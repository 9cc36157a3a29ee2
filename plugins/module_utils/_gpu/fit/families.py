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

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import wording
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

Config = t.Mapping[str, t.Any]


class Saved(t.NamedTuple):
    """Bytes that a layer saves for a token: multiples of the width and of the intermediate width, and of heads' norms."""

    width: float
    inner: float
    heads: float = 0.0


class Family(t.NamedTuple):
    """One architecture. *saved* is for bf16 (or fp16), amp and fp32, without q, k, v and the output of attention.

    *reads* are the fields besides sizes that its class in transformers reads; *heads* end the names of the classes described here.
    """

    fields: dict[str, str]
    saved: tuple[Saved, Saved, Saved]
    gated: bool
    biases: bool = False
    qkv_biases: bool = False
    norms: int = 2
    norm_biases: bool = False
    head_norms: bool = False
    tied: bool = True
    classes: bool = False
    generates: bool = True
    reads: tuple[str, ...] = ()
    activation: str = "silu"
    heads: tuple[str, ...] = ("ForCausalLM",)


_LLAMA_FIELDS = {
    "hidden_size": "width",
    "intermediate_size": "inner",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "head_dim": "head_dim",
    "vocab_size": "vocabulary",
}
_GPT2_FIELDS = {
    "n_embd": "width",
    "n_inner": "inner",
    "n_layer": "layers",
    "n_head": "heads",
    "vocab_size": "vocabulary",
    "n_positions": "positions",
}
_BERT_FIELDS = {
    "hidden_size": "width",
    "intermediate_size": "inner",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "vocab_size": "vocabulary",
    "max_position_embeddings": "positions",
    "type_vocab_size": "types",
}
_VIT_FIELDS = {
    "hidden_size": "width",
    "intermediate_size": "inner",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "image_size": "image",
    "patch_size": "patch",
    "num_channels": "channels",
}
_MOE_FIELDS = {**_LLAMA_FIELDS, "num_local_experts": "experts", "num_experts_per_tok": "active"}

# Tensors that the layers of transformers 5.17 save, counted with saved_tensors_hooks of PyTorch 2.11 in bf16 and fp32. For amp they
# follow from these and from the types of autocast: a copy in bf16 for each linear layer, norms in fp32.
_LLAMA = (Saved(16, 8), Saved(26, 8), Saved(24, 16))
_GPT2 = (Saved(10, 10), Saved(14, 16), Saved(18, 20))
_BERT = (Saved(10, 4), Saved(18, 4), Saved(18, 8))
_VIT = (Saved(8, 4), Saved(16, 4), Saved(16, 8))
_GEMMA = (Saved(36, 8, 8), Saved(42, 8, 8), Saved(40, 16, 8))
_QWEN3 = (Saved(16, 8, 6), Saved(26, 8, 8), Saved(24, 16, 8))

_WINDOW = ("sliding_window",)
_QWEN_WINDOW = (*_WINDOW, "use_sliding_window", "max_window_layers")
_GEMMA_WINDOW = (*_WINDOW, "sliding_window_pattern")

FAMILIES: dict[str, Family] = {
    "gpt2": Family(
        _GPT2_FIELDS, _GPT2, False, biases=True, norm_biases=True, activation="gelu_new", heads=("LMHeadModel",)
    ),
    "llama": Family(_LLAMA_FIELDS, _LLAMA, True, tied=False, reads=("attention_bias", "mlp_bias")),
    "mistral": Family(_LLAMA_FIELDS, _LLAMA, True, tied=False, reads=_WINDOW),
    "qwen2": Family(_LLAMA_FIELDS, _LLAMA, True, qkv_biases=True, tied=False, reads=_QWEN_WINDOW),
    "qwen3": Family(_LLAMA_FIELDS, _QWEN3, True, head_norms=True, tied=False, reads=(*_QWEN_WINDOW, "attention_bias")),
    "mixtral": Family(_MOE_FIELDS, _LLAMA, True, tied=False, reads=_WINDOW),
    "gemma3_text": Family(
        _LLAMA_FIELDS,
        _GEMMA,
        True,
        norms=4,
        head_norms=True,
        reads=(*_GEMMA_WINDOW, "attention_bias"),
        activation="gelu_pytorch_tanh",
    ),
    "bert": Family(
        _BERT_FIELDS,
        _BERT,
        False,
        biases=True,
        norm_biases=True,
        generates=False,
        activation="gelu",
        heads=("ForMaskedLM", "ForPreTraining"),
    ),
    "vit": Family(
        _VIT_FIELDS,
        _VIT,
        False,
        biases=True,
        norm_biases=True,
        classes=True,
        generates=False,
        reads=("qkv_bias",),
        activation="gelu",
        heads=("ForImageClassification",),
    ),
}

# Recurrent layers of PyTorch have no configuration of Hugging Face. This is the collection's own form of it.
LSTM_FIELDS = ("input_size", "hidden_size", "num_layers", "num_labels")

# What the classes of transformers 5.17 take where a field is absent. A field that is null has no default.
_DEFAULTS: dict[str, dict[str, t.Any]] = {
    "gpt2": {"n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257},
    "bert": {"type_vocab_size": 2},
    "vit": {"num_channels": 3},
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096},
    "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2, "num_key_value_heads": 8},
    "qwen2": {"num_key_value_heads": 32, "sliding_window": 4096},
    "qwen3": {"num_key_value_heads": 32, "head_dim": 128, "sliding_window": 4096},
    "gemma3_text": {
        "vocab_size": 262208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "sliding_window": 4096,
    },
}

# Fields that leave memory and speed as they are, in the families above. The second half are options of generation in old files.
_HARMLESS = re.compile(
    r"^(_.*|auto_map|torch_dtype|dtype|transformers_version|model_type|task_specific_params|name_or_path"
    r"|(bos|eos|pad|unk|sep|cls|mask|decoder_start|forced_bos|forced_eos)_token_id|initializer_(range|factor)"
    r"|.*_(dropout|dropout_prob|pdrop|eps|epsilon)|classifier_dropout|rope_.*|partial_rotary_factor|max_position_embeddings|n_ctx"
    r"|n_positions|use_cache|pretraining_tp|scale_attn.*|summary_.*|attention_dropout|router_(aux_loss_coef|jitter_noise)|return_dict"
    r"|id2label|label2id|gradient_checkpointing|encoder_stride|pooler_.*|cache_implementation|query_pre_attn_scalar|problem_type"
    r"|finetuning_task|num_labels|original_max_position_embeddings"
    r"|num_beams|num_beam_groups|num_return_sequences|(encoder_)?no_repeat_ngram_size|(max|min)_(length|new_tokens)|top_[kp]|typical_p"
    r"|temperature|do_sample|early_stopping|(length|diversity|repetition)_penalty|bad_words_ids|(begin_)?suppress_tokens"
    r"|remove_invalid_values|return_dict_in_generate|output_scores|tokenizer_class|prefix|torchscript|use_bfloat16|tf_legacy_loss)$"
)
_ACTIVATIONS = ("hidden_act", "hidden_activation", "activation_function")
# Fields that every family reads, below.
_READ = ("tie_word_embeddings", "layer_types", "architectures", *_ACTIVATIONS)
_SWITCHES = ("tie_word_embeddings", "use_sliding_window", "attention_bias", "mlp_bias", "qkv_bias")
# What a field must have, because anything else is another shape, or calculates attention with its whole square.
_FUSED = ("sdpa", "flash_attention_2", "flash_attention_3")
_FIXED = {
    "add_cross_attention": (False,),
    "is_encoder_decoder": (False,),
    "is_decoder": (False,),
    "use_bidirectional_attention": (False,),
    "attn_logit_softcapping": (),
    "final_logit_softcapping": (),
    "position_embedding_type": ("absolute",),
    "attn_implementation": _FUSED,
    "_attn_implementation": _FUSED,
}
_SHAPES = re.compile(
    r"(size|dim|layer|head|expert|^num_|^n_|latent|rank|window|state|conv|quant|group|kv|chunk|mlp|vision|audio|text|bias|compress|spars"
    r"|_[0-9]?bits?|moe|embed|proj|lora|adapter|depth|width|channel|ffn|block|shared|mtp)"
)
# A field with one of these has no effect.
_EMPTY: tuple[t.Any, ...] = (False, 0, "", [], {})
LAYERS = 10_000


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
    labels: int = 0
    unknown: tuple[str, ...] = ()

    @property
    def traits(self) -> Family:
        """Return the family."""
        return FAMILIES[self.family]


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
                "for the language model alone, or give a Python entry point, which is traced"
            )
        raise Refusal(
            f"`model` has the unknown architecture {wording.name(name)}: known are {', '.join([*FAMILIES, 'lstm'])}; "
            "or give a Python entry point, which is traced"
        )
    family = FAMILIES[name]
    given = {**_DEFAULTS.get(name, {}), **config}
    given = {key: value for key, value in given.items() if value is not None}
    unknown = _unknown(name, family, given)
    sizes = {new: whole(given[old], old) for old, new in family.fields.items() if old in given}
    if name == "gpt2" and "width" in sizes:
        sizes.setdefault("inner", 4 * sizes["width"])
    missing = [old for old, new in family.fields.items() if new not in sizes and new not in ("kv_heads", "head_dim")]
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
    biases = "attention_bias" in family.reads and given.get("attention_bias", False)
    return Model(
        family=name,
        windows=_windows(name, given, sizes["layers"]),
        tied=given.get("tie_word_embeddings", family.tied),
        attention_biases=given.get("qkv_bias", True) if family.biases else biases or family.qkv_biases,
        output_biases=family.biases or biases,
        mlp_biases=family.biases or ("mlp_bias" in family.reads and given.get("mlp_bias", False)),
        labels=_labels(given) if family.classes else 0,
        unknown=unknown,
        **sizes,
    )


def whole(value: t.Any, name: str) -> int:
    """Return a size of a model.

    :raises Refusal: it is none.
    """
    most = LAYERS if "layer" in name else 2**31 - 1
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
        raise Refusal(f"`model`: its {name} is {wording.short(value)}: give a whole number from 1 to {most}")
    return value


def _labels(given: Config) -> int:
    labels = given.get("id2label")
    return len(labels) if isinstance(labels, dict) else whole(given.get("num_labels", 2), "num_labels")


def _unknown(name: str, family: Family, given: Config) -> tuple[str, ...]:
    """Return unknown fields that widen the interval.

    :raises Refusal: one of them may change the shape.
    """
    for field, allowed in _FIXED.items():
        if field in given and given[field] not in allowed:
            raise Refusal(
                f"`model`: {field} is {wording.short(given[field])}, another shape of {name}: give a Python entry point, which is traced"
            )
    for field in _SWITCHES:
        if not isinstance(given.get(field, False), bool):
            raise Refusal(f"`model`: its {field} is {wording.short(given[field])}: give true or false")
    # Logits are a large part of the memory, and another class has another head.
    classes = given.get("architectures") or list(family.heads)
    if not isinstance(classes, list) or not all(str(each).endswith(family.heads) for each in classes):
        raise Refusal(
            f"`model`: architectures is {wording.short(classes)}, and the head of {' or '.join(family.heads)} is known: "
            "remove the field to estimate that, or give a Python entry point, which is traced"
        )
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
    # Another activation saves other tensors.
    unknown += [field for field in _ACTIVATIONS if given.get(field, family.activation) != family.activation]
    return tuple(sorted(unknown))


_QWEN = ("qwen2", "qwen3")


def _windows(name: str, given: Config, layers: int) -> tuple[int | None, ...]:
    """Return the window of each layer."""
    reads = FAMILIES[name].reads
    window = given.get("sliding_window") if "sliding_window" in reads else None
    if name in _QWEN and not given.get("use_sliding_window"):
        window = None
    kinds = given.get("layer_types")
    if kinds is not None:
        if not isinstance(kinds, list) or len(kinds) != layers:
            raise Refusal(f"`model`: layer_types has to name the kind of each of its {layers} layers: correct it")
        other = sorted({str(kind) for kind in kinds} - {"full_attention", "sliding_attention"})
        if other:
            raise Refusal(
                f"`model`: the kind of layer {wording.name(other[0])} is unknown: give a Python entry point, which is traced"
            )
        if "sliding_attention" in kinds and window is None:
            raise Refusal(
                "`model`: layer_types has layers with a sliding window, and the fields of the window give none: correct one of both"
            )
        return tuple(whole(window, "sliding_window") if kind == "sliding_attention" else None for kind in kinds)
    if window is None:
        return (None,) * layers
    size = whole(window, "sliding_window")
    if "sliding_window_pattern" in reads:
        pattern = whole(given.get("sliding_window_pattern", 6), "sliding_window_pattern")
        return tuple(size if number % pattern else None for number in range(1, layers + 1))
    if name in _QWEN:
        # The layers below this number attend to everything.
        first = given.get("max_window_layers", 28)
        lower = min(layers, first if first == 0 else whole(first, "max_window_layers"))
        return (None,) * lower + (size,) * (layers - lower)
    return (size,) * layers


def parameters(model: Model) -> dict[str, int]:
    """Return the parameters by place: embeddings, those of linear layers, of norms, of the head, and of one token's way."""
    family = model.traits
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    attention = model.width * (queries + 2 * keys) + queries * model.width
    attention += (queries + 2 * keys) * model.attention_biases + model.width * model.output_biases
    mlp = (3 if family.gated else 2) * model.width * model.inner
    if model.mlp_biases:
        mlp += (2 if family.gated else 1) * model.inner + model.width
    router = model.width * model.experts if model.experts > 1 else 0
    norms = family.norms * model.width * (2 if family.norm_biases else 1)
    if family.head_norms:
        norms += 2 * model.head_dim
    last = 0 if model.family == "bert" else model.width * (2 if family.norm_biases else 1)
    embeddings = (model.vocabulary + model.positions + model.types) * model.width
    head = 0
    if model.family == "bert":
        embeddings += 2 * model.width
        head = model.width * model.width + 3 * model.width + model.vocabulary
        head += 0 if model.tied else model.vocabulary * model.width
    elif model.family == "vit":
        patches = (model.image // model.patch) ** 2
        embeddings = model.width * (model.channels * model.patch**2 + 1 + 1 + patches + 1)
        head = model.width * model.labels + model.labels
    elif not model.tied:
        head = model.vocabulary * model.width
    linear = model.layers * (attention + router + mlp * model.experts)
    return {
        "embeddings": embeddings,
        "linear": linear,
        "active": model.layers * (attention + router + mlp * model.active),
        "norms": model.layers * norms + last,
        "head": head,
        "total": embeddings + linear + model.layers * norms + last + head,
    }


def cache_bytes(model: Model, context: int, element: int) -> int:
    """Return the KV cache of one sequence: each layer keeps keys and values of its own window."""
    kept = sum(min(window or context, context) for window in model.windows)
    return 2 * kept * model.kv_heads * model.head_dim * element

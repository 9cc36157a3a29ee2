# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Architectures of models, as data: which field of a configuration has which size, and what layers save for the backward pass. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject


class Saved(t.NamedTuple):
    """Bytes that a layer saves for a token: multiples of the width and of the intermediate width, and of heads' norms."""

    width: float
    inner: float
    heads: float = 0.0


class Family(t.NamedTuple):
    """One architecture. *saved* is for bf16 (or fp16), amp and fp32, without q, k, v and the output of attention.

    *reads* are the fields besides sizes that its class in transformers reads; *heads* end the names of the classes described here.
    *like* is the family whose kernels were counted. *wide_norms* are those of all heads together. *nearby* layers were not counted.
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
    like: str = "llama"
    nearby: bool = False
    wide_norms: bool = False
    last_norm: bool = True
    head_bias: bool = False
    # Rows that the table of positions has besides.
    more_positions: int = 0
    embedding_norm: bool = False
    first_norm: bool = True
    # Learned tokens before those of the image.
    first_tokens: int = 1


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
_EXPERT_FIELDS = {
    **_LLAMA_FIELDS,
    "num_experts": "experts",
    "num_local_experts": "experts",
    "n_routed_experts": "experts",
    "num_experts_per_tok": "active",
    "moe_intermediate_size": "expert_inner",
}
_SPARSE = (
    "decoder_sparse_step", "mlp_only_layers", "norm_topk_prob", "output_router_logits", "shared_expert_intermediate_size",
    "n_shared_experts", "first_k_dense_replace", "moe_layer_freq", "n_group", "topk_group", "topk_method", "scoring_func",
    "routed_scaling_factor", "num_nextn_predict_layers", "interleave_moe_layer_step", "moe_layers", "seq_aux",
    "aux_loss_alpha", "experts_per_token", "ep_size",
)  # fmt: skip
# Attention with a latent vector in place of keys and values, and attention that is linear.
LATENT = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "qk_head_dim", "v_head_dim")
LINEAR = (
    "linear_conv_kernel_dim",
    "linear_key_head_dim",
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_value_head_dim",
)
_MOE_FIELDS = {**_LLAMA_FIELDS, "num_local_experts": "experts", "num_experts_per_tok": "active"}

# Tensors that the layers of transformers 5.17 save, counted with saved_tensors_hooks of PyTorch 2.11 in bf16 and fp32. For amp they
# follow from these and from the types of autocast: a copy in bf16 for each linear layer, norms in fp32.
_LLAMA = (Saved(16, 8), Saved(26, 8), Saved(24, 16))
_GPT2 = (Saved(10, 10), Saved(14, 16), Saved(18, 20))
_BERT = (Saved(10, 4), Saved(18, 4), Saved(18, 8))
_VIT = (Saved(8, 4), Saved(16, 4), Saved(16, 8))
_GEMMA = (Saved(36, 8, 8), Saved(42, 8, 8), Saved(40, 16, 8))
_QWEN3 = (Saved(16, 8, 6), Saved(26, 8, 8), Saved(24, 16, 8))

# Activations of one kernel, which save their input, and those of several. The inner layer without a gate saves so many bytes (measured
# with phi and both activations on an H100): for bf16, amp and fp32.
ONE_KERNEL = ("gelu", "gelu_pytorch_tanh", "silu")
COMPOSED = ("gelu_new", "gelu_fast", "quick_gelu")
INNER = {True: (4, 4, 8), False: (10, 16, 20)}

# Fields that have the tokens that a layer keeps.
WINDOWS = ("sliding_window", "attention_chunk_size", "local_attention")
_WINDOW = ("sliding_window",)
_QWEN_WINDOW = (*_WINDOW, "use_sliding_window", "max_window_layers")
_GEMMA_WINDOW = (*_WINDOW, "sliding_window_pattern")

FAMILIES: dict[str, Family] = {
    "gpt2": Family(
        _GPT2_FIELDS,
        _GPT2,
        False,
        biases=True,
        norm_biases=True,
        activation="gelu_new",
        heads=("LMHeadModel",),
        like="gpt2",
    ),
    "llama": Family(_LLAMA_FIELDS, _LLAMA, True, tied=False, reads=("attention_bias", "mlp_bias")),
    "mistral": Family(_LLAMA_FIELDS, _LLAMA, True, tied=False, reads=_WINDOW),
    "qwen2": Family(_LLAMA_FIELDS, _LLAMA, True, qkv_biases=True, tied=False, reads=_QWEN_WINDOW),
    "qwen3": Family(
        _LLAMA_FIELDS, _QWEN3, True, like="qwen3", head_norms=True, tied=False, reads=(*_QWEN_WINDOW, "attention_bias")
    ),
    "mixtral": Family(_MOE_FIELDS, _LLAMA, True, tied=False, reads=_WINDOW, like="mixtral"),
    "gemma3_text": Family(
        _LLAMA_FIELDS,
        _GEMMA,
        True,
        norms=4,
        head_norms=True,
        reads=(*_GEMMA_WINDOW, "attention_bias"),
        activation="gelu_pytorch_tanh",
        like="gemma3_text",
    ),
}

_ENCODER = Family(
    _BERT_FIELDS,
    _BERT,
    False,
    biases=True,
    norm_biases=True,
    generates=False,
    activation="gelu",
    heads=("ForMaskedLM", "ForPreTraining"),
    like="bert",
    last_norm=False,
    embedding_norm=True,
)
_IMAGES = Family(
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
    like="vit",
)
# A decoder whose layers norm, add biases and have no gate: with an activation of one kernel they are those of a ViT. Its positions are
# none of its weights.
_PLAIN = Family(
    {**_LLAMA_FIELDS},
    _VIT,
    False,
    biases=True,
    norm_biases=True,
    tied=False,
    activation="gelu",
    like="vit",
    nearby=True,
)
_FAMILY = FAMILIES["llama"]
_MIXTURE = _FAMILY._replace(fields=_EXPERT_FIELDS, like="mixtral", nearby=True)
_MULTIPLIERS = ("embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling", "logit_scale")
FAMILIES.update(
    bert=_ENCODER,
    roberta=_ENCODER,
    camembert=_ENCODER,
    distilbert=_ENCODER._replace(
        fields={
            "dim": "width",
            "hidden_dim": "inner",
            "n_layers": "layers",
            "n_heads": "heads",
            "vocab_size": "vocabulary",
            "max_position_embeddings": "positions",
        },
        reads=("sinusoidal_pos_embds",),
    ),
    modernbert=_ENCODER._replace(
        fields={key: value for key, value in _BERT_FIELDS.items() if value not in ("positions", "types")},
        saved=(Saved(10, 8), Saved(18, 8), Saved(18, 16)),
        gated=True,
        biases=False,
        norm_biases=False,
        last_norm=True,
        first_norm=False,
        nearby=True,
        heads=("ForMaskedLM",),
        reads=(
            "attention_bias",
            "mlp_bias",
            "norm_bias",
            "decoder_bias",
            "local_attention",
            "global_attn_every_n_layers",
            "global_rope_theta",
            "local_rope_theta",
            "sparse_prediction",
            "sparse_pred_ignore_index",
            "deterministic_flash_attn",
            "repad_logits_with_grad",
        ),
    ),
    vit=_IMAGES,
    deit=_IMAGES._replace(first_tokens=2, heads=("ForImageClassification", "ForImageClassificationWithTeacher")),
    phi3=_FAMILY._replace(reads=(*_WINDOW, "attention_bias")),
    ministral=_FAMILY._replace(reads=_WINDOW),
    ministral3=_FAMILY._replace(reads=_WINDOW),
    granite=_FAMILY._replace(reads=("attention_bias", "mlp_bias", *_MULTIPLIERS)),
    smollm3=_FAMILY._replace(
        tied=True, reads=(*_QWEN_WINDOW, "attention_bias", "mlp_bias", "no_rope_layers", "no_rope_layer_interval")
    ),
    hunyuan_v1_dense=_FAMILY._replace(saved=_QWEN3, head_norms=True, like="qwen3"),
    exaone4=_FAMILY._replace(
        saved=_QWEN3, head_norms=True, like="qwen3", nearby=True, reads=(*_WINDOW, "sliding_window_pattern")
    ),
    gemma=_FAMILY._replace(tied=True, activation="gelu_pytorch_tanh", nearby=True),
    gemma2=FAMILIES["gemma3_text"]._replace(
        head_norms=False,
        nearby=True,
        reads=(*_GEMMA_WINDOW, "attention_bias", "attn_logit_softcapping", "final_logit_softcapping"),
    ),
    glm=_FAMILY._replace(reads=("attention_bias",), nearby=True),
    glm4=_FAMILY._replace(reads=("attention_bias",), norms=4, nearby=True),
    olmo=_FAMILY._replace(norms=0, last_norm=False, nearby=True, reads=("attention_bias", "clip_qkv")),
    olmo2=_FAMILY._replace(saved=_QWEN3, wide_norms=True, like="qwen3", nearby=True, reads=("attention_bias",)),
    olmo3=_FAMILY._replace(
        saved=_QWEN3, wide_norms=True, like="qwen3", nearby=True, reads=("attention_bias", *_WINDOW)
    ),
    cohere=_FAMILY._replace(norms=1, tied=True, nearby=True, reads=("attention_bias", "use_qk_norm", *_MULTIPLIERS)),
    stablelm=_FAMILY._replace(
        norm_biases=True, nearby=True, reads=("use_qkv_bias", "qk_layernorm", "use_parallel_residual")
    ),
    gpt_neox=_PLAIN._replace(reads=("use_parallel_residual", "attention_bias", "rotary_pct", "rotary_emb_base")),
    phi=_PLAIN._replace(
        saved=_GPT2, like="gpt2", norms=1, head_bias=True, reads=("qk_layernorm",), activation="gelu_new"
    ),
    starcoder2=_PLAIN._replace(tied=True, reads=("use_bias", "norm_type", *_WINDOW), activation="gelu_pytorch_tanh"),
    opt=_PLAIN._replace(
        fields={
            "hidden_size": "width",
            "ffn_dim": "inner",
            "num_hidden_layers": "layers",
            "num_attention_heads": "heads",
            "vocab_size": "vocabulary",
            "max_position_embeddings": "positions",
        },
        tied=True,
        more_positions=2,
        activation="relu",
        reads=(
            "do_layer_norm_before",
            "enable_bias",
            "layer_norm_elementwise_affine",
            "word_embed_proj_dim",
            "dropout",
        ),
    ),
    falcon=_PLAIN._replace(
        fields={
            "hidden_size": "width",
            "ffn_hidden_size": "inner",
            "num_hidden_layers": "layers",
            "num_attention_heads": "heads",
            "num_kv_heads": "kv_heads",
            "vocab_size": "vocabulary",
        },
        biases=False,
        norms=1,
        tied=True,
        reads=(
            "bias",
            "multi_query",
            "new_decoder_architecture",
            "num_ln_in_parallel_attn",
            "parallel_attn",
            "alibi",
            "activation",
        ),
    ),
    bloom=_PLAIN._replace(
        fields={"hidden_size": "width", "n_layer": "layers", "n_head": "heads", "vocab_size": "vocabulary"},
        tied=True,
        embedding_norm=True,
        reads=("slow_but_exact", "apply_residual_connection_post_layernorm"),
    ),
    mpt=_PLAIN._replace(
        fields={"d_model": "width", "n_layers": "layers", "n_heads": "heads", "vocab_size": "vocabulary"},
        biases=False,
        norm_biases=False,
        tied=True,
        reads=("expansion_ratio", "attn_config", "no_bias", "learned_pos_emb", "norm_type", "embedding_fraction"),
    ),
    qwen2_moe=_MIXTURE._replace(qkv_biases=True, reads=(*_QWEN_WINDOW, *_SPARSE, "qkv_bias")),
    qwen3_moe=_MIXTURE._replace(head_norms=True, reads=(*_QWEN_WINDOW, *_SPARSE, "attention_bias")),
    qwen3_next=_MIXTURE._replace(head_norms=True, reads=(*_SPARSE, "attention_bias", *LINEAR)),
    deepseek_v2=_MIXTURE._replace(reads=(*_SPARSE, *LATENT, "attention_bias", "mlp_bias")),
    deepseek_v3=_MIXTURE._replace(reads=(*_SPARSE, *LATENT, "attention_bias")),
    glm4_moe=_MIXTURE._replace(reads=(*_SPARSE, "use_qk_norm", "attention_bias")),
    gpt_oss=_MIXTURE._replace(reads=(*_WINDOW, *_SPARSE, "attention_bias", "swiglu_alpha", "swiglu_limit")),
    llama4_text=_MIXTURE._replace(
        reads=(
            *_SPARSE,
            "attention_bias",
            "attention_chunk_size",
            "use_qk_norm",
            "no_rope_layers",
            "for_llm_compressor",
            "no_rope_layer_interval",
            "attn_temperature_tuning",
            "attn_scale",
            "floor_scale",
            "intermediate_size_mlp",
        ),
    ),
)
FAMILIES["xlm-roberta"] = _ENCODER


# Other names of fields, which the classes of transformers take for these (`attribute_map`, and names of first releases).
ALIASES: dict[str, dict[str, str]] = {
    "gpt2": {
        "hidden_size": "n_embd",
        "max_position_embeddings": "n_positions",
        "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    },
    "distilbert": {"hidden_size": "dim", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers"},
    "bloom": {"n_embed": "hidden_size", "num_attention_heads": "n_head", "num_hidden_layers": "n_layer"},
    "mpt": {"hidden_size": "d_model", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers"},
    "falcon": {"n_embed": "hidden_size"},
}

# What the classes of transformers 5.17 take where a field is absent. A field that is null has no default.
DEFAULTS: dict[str, JsonObject] = {
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
    "phi3": {"sliding_window": None},
    "gemma": {"head_dim": 256},
    "gemma2": {"head_dim": 256, "num_key_value_heads": 4, "num_attention_heads": 8, "sliding_window": 4096},
    "roberta": {"type_vocab_size": 2},
    "xlm-roberta": {"type_vocab_size": 2},
    "modernbert": {"local_attention": 128},
    "distilbert": {"dim": 768, "hidden_dim": 3072, "n_layers": 6, "n_heads": 12, "max_position_embeddings": 512},
    "glm": {"attention_bias": True, "num_key_value_heads": 2, "head_dim": 128},
    "glm4": {"attention_bias": True, "num_key_value_heads": 2, "head_dim": 128},
    "deit": {"num_channels": 3},
    "gpt_neox": {"attention_bias": True},
    "falcon": {"multi_query": True, "parallel_attn": True},
    "starcoder2": {"num_key_value_heads": 2, "use_bias": True, "sliding_window": None},
    "qwen2_moe": {"num_experts": 60, "num_experts_per_tok": 4},
    "qwen3_moe": {"num_key_value_heads": 4, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8},
    "qwen3_next": {"head_dim": 256, "num_key_value_heads": 2, "num_experts": 512, "num_experts_per_tok": 10},
    "deepseek_v3": {"num_experts_per_tok": 8, "n_routed_experts": 256, "num_key_value_heads": 128},
    "deepseek_v2": {"num_experts_per_tok": 6, "n_routed_experts": 64, "num_key_value_heads": 32},
    "glm4_moe": {"n_routed_experts": 128, "num_experts_per_tok": 8},
    "gpt_oss": {
        "num_local_experts": 128,
        "num_experts_per_tok": 4,
        "head_dim": 64,
        "sliding_window": 128,
        "attention_bias": True,
    },
    "llama4_text": {"num_local_experts": 16, "head_dim": 128, "num_experts_per_tok": 1, "intermediate_size_mlp": 16384},
    "exaone4": {"sliding_window": 4096},
    "olmo3": {"sliding_window": 4096},
}

# SPDX-License-Identifier: GPL-3.0-or-later
"""Shapes of models: parameters, and KV caches that were calculated by hand."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import families, memory
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

from tests.unit.support.gpu_fit import GPT2, LLAMA, job

BERT = {
    "model_type": "bert",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
}
GEMMA = {
    "model_type": "gemma3_text",
    "hidden_size": 1152,
    "intermediate_size": 6912,
    "num_hidden_layers": 26,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "vocab_size": 262144,
    "sliding_window": 512,
}
MISTRAL = {
    **LLAMA,
    "model_type": "mistral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "vocab_size": 32000,
    "sliding_window": 4096,
    "tie_word_embeddings": False,
}


# What `sum(p.numel() for p in model.parameters())` returns for these models of transformers 5.17.
@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (GPT2, 124_439_808),
        (LLAMA, 1_235_814_400),
        (MISTRAL, 7_241_732_096),
        (GEMMA, 999_885_952),
        (BERT, 109_514_298),
    ],
    ids=lambda value: value.get("model_type", "") if isinstance(value, dict) else "",
)
def test_parameters_are_those_of_transformers(config: dict[str, Any], parameters: int) -> None:
    assert families.parameters(families.read(config))["total"] == parameters


def test_kv_cache_with_grouped_queries() -> None:
    # 2 (keys, values) x 16 layers x 8 heads x 64 x 2 bytes x 1000 tokens: a quarter of that of 32 heads.
    assert families.cache_bytes(families.read(LLAMA), 1000, 2) == 32_768_000


def test_kv_cache_with_a_sliding_window_stops_growing() -> None:
    model = families.read(MISTRAL)
    # 2 x 32 layers x 8 heads x 128 x 2 bytes = 131,072 for each token that is kept.
    assert families.cache_bytes(model, 1000, 2) == 131_072_000
    assert families.cache_bytes(model, 8000, 2) == families.cache_bytes(model, 4096, 2) == 131_072 * 4096


def test_kv_cache_of_a_hybrid_model() -> None:
    # Of 26 layers, each sixth keeps everything: 4 layers x 2000 tokens and 22 x 512; 2 x 1 head x 256 x 2 bytes each.
    assert families.cache_bytes(families.read(GEMMA), 2000, 2) == (4 * 2000 + 22 * 512) * 1024


def test_last_layer_of_each_pattern_keeps_everything() -> None:
    model = families.read({**GEMMA, "num_hidden_layers": 6})
    assert model.windows == (512,) * 5 + (None,)


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
@pytest.mark.parametrize(
    ("fields", "windows"),
    [
        ({"use_sliding_window": False}, (None, None, None)),
        ({"use_sliding_window": True}, (None, None, None)),
        ({"use_sliding_window": True, "max_window_layers": 2}, (None, None, 64)),
        ({"use_sliding_window": True, "max_window_layers": 0}, (64, 64, 64)),
    ],
)
def test_lower_layers_of_qwen_have_no_window(family: str, fields: dict[str, Any], windows: tuple[int | None]) -> None:
    size = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "vocab_size": 99,
    }
    model = families.read({"model_type": family, **size, "head_dim": 16, "sliding_window": 64, **fields})
    assert model.windows == windows


def test_layer_types_say_which_layers_have_a_window() -> None:
    kinds = ["full_attention" if number < 20 else "sliding_attention" for number in range(26)]
    model = families.read({**GEMMA, "layer_types": kinds})
    assert families.cache_bytes(model, 2000, 2) == (20 * 2000 + 6 * 512) * 1024


def test_harmless_fields_change_nothing() -> None:
    more = {"architectures": ["LlamaForCausalLM"], "rope_theta": 5e5, "torch_dtype": "bfloat16", "bos_token_id": 1}
    assert families.read({**LLAMA, **more}) == families.read(LLAMA)


def test_an_unknown_field_is_kept_for_the_interval() -> None:
    assert families.read({**LLAMA, "mystery": True}).unknown == ("mystery",)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ([], "is no configuration"),
        ({}, "`model_type` is missing"),
        ({"model_type": "llama9"}, "known are .*llama"),
        ({**LLAMA, "num_memory_heads": 4}, "num_memory_heads may change the shape"),
        (
            {**LLAMA, "quantization_config": {"bits": 4}},
            "quantization_config has the method of no name: known are bitsandbytes",
        ),
        ({**LLAMA, "hidden_size": "2048"}, "hidden_size is '2048'"),
        ({**LLAMA, "num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({**LLAMA, "num_key_value_heads": 5}, "no multiple of 5"),
        ({**LLAMA, "num_attention_heads": 24}, "no multiple of its 24 heads"),
        ({"model_type": "llama", "hidden_size": 64}, "has no intermediate_size|has no num_hidden_layers"),
        ({**GEMMA, "layer_types": ["full_attention"]}, "each of its 26 layers"),
        ({**GEMMA, "layer_types": ["linear_attention"] * 26}, "linear_attention is unknown"),
        ({**GPT2, "add_cross_attention": True}, "another shape of gpt2"),
    ],
)
def test_a_configuration_is_refused(config: Any, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        families.read(config)


QWEN = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
}
VIT = {
    "model_type": "vit",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "image_size": 224,
    "patch_size": 16,
    "num_labels": 1000,
}
MIXTRAL = {**MISTRAL, "model_type": "mixtral", "sliding_window": None}


# Published counts; those of biases from the classes of transformers.
@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (QWEN, 7_615_616_512),
        ({**QWEN, "attention_bias": False}, 7_615_616_512),
        (MIXTRAL, 46_702_792_704),
        (VIT, 86_567_656),
        ({**VIT, "qkv_bias": False}, 86_567_656 - 12 * 3 * 768),
        ({**BERT, "tie_word_embeddings": False}, 109_514_298 + 30522 * 768),
        ({**LLAMA, "attention_bias": True}, 1_235_814_400 + 16 * (2048 + 2 * 512 + 2048)),
        ({**LLAMA, "mlp_bias": True}, 1_235_814_400 + 16 * (2 * 8192 + 2048)),
    ],
    ids=str,
)
def test_biases_and_heads_are_those_of_the_class(config: dict[str, Any], parameters: int) -> None:
    assert families.parameters(families.read(config))["total"] == parameters


def test_an_absent_field_has_the_default_of_its_class() -> None:
    absent = {key: value for key, value in MISTRAL.items() if key not in ("num_key_value_heads", "sliding_window")}
    assert families.read(absent) == families.read(MISTRAL)
    # A field that is null has none.
    nothing = families.read({**absent, "num_key_value_heads": None, "sliding_window": None})
    assert (nothing.kv_heads, set(nothing.windows)) == (32, {None})
    # The text_config of a gemma3 of four billion parameters has no more.
    small = {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}
    model = families.read({**small, "sliding_window": 1024})
    assert families.parameters(model)["total"] == 3_880_263_168
    assert families.cache_bytes(model, 8192, 2) == (5 * 8192 + 29 * 1024) * 2 * 4 * 256 * 2


def test_a_window_is_of_families_that_read_it() -> None:
    with pytest.raises(Refusal, match="sliding_window may change the shape"):
        families.read({**LLAMA, "sliding_window": 64})
    with pytest.raises(Refusal, match="sliding_window_pattern may change the shape"):
        families.read({**MISTRAL, "sliding_window_pattern": 2})
    assert set(families.read({**LLAMA, "sliding_window": None, "use_sliding_window": False}).windows) == {None}


@pytest.mark.parametrize(
    "fields",
    [
        {
            "pruned_heads": {},
            "chunk_size_feed_forward": 0,
            "num_beams": 1,
            "no_repeat_ngram_size": 0,
            "bad_words_ids": None,
        },
        {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}, "rope_theta": 500000.0, "pretraining_tp": 1},
        {"architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "attn_implementation": "sdpa"},
        {"quantization_config": None, "mlp_only_layers": []},
    ],
)
def test_fields_without_effect_change_nothing(fields: dict[str, Any]) -> None:
    assert families.read({**LLAMA, **fields}) == families.read(LLAMA)


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({**LLAMA, "hidden_act": "relu"}, "hidden_act"),
        ({**GEMMA, "hidden_activation": "silu"}, "hidden_activation"),
        ({**BERT, "output_attentions": True}, "output_attentions"),
    ],
)
def test_another_activation_or_output_widens(config: dict[str, Any], field: str) -> None:
    assert families.read(config).unknown == (field,)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({**LLAMA, "compression_config": {"format": "pack"}}, "compression_config may change the shape"),
        ({**LLAMA, "load_in_4bit": True}, "load_in_4bit may change the shape"),
        ({**LLAMA, "attn_implementation": "eager"}, "another shape of llama"),
        ({**LLAMA, "_attn_implementation": "eager"}, "another shape of llama"),
        ({**BERT, "position_embedding_type": "relative_key"}, "another shape of bert"),
        ({**GEMMA, "use_bidirectional_attention": True}, "another shape of gemma3_text"),
        ({**GEMMA, "final_logit_softcapping": 30.0}, "another shape of gemma3_text"),
        (
            {**LLAMA, "architectures": ["LlamaForMultipleChoice"]},
            "the heads of ForCausalLM or .* are known: remove the field",
        ),
        ({**LLAMA, "architectures": "LlamaForCausalLM"}, "architectures is 'LlamaForCausalLM'"),
        ({**BERT, "architectures": ["BertLMHeadModel"]}, "the heads of ForMaskedLM or ForPreTraining or .* are known"),
        ({**LLAMA, "tie_word_embeddings": "false"}, "tie_word_embeddings is 'false': give true or false"),
        ({**QWEN, "use_sliding_window": "false"}, "use_sliding_window is 'false': give true or false"),
        ({**LLAMA, "intermediate_size": None}, "has no intermediate_size"),
        ({**GPT2, "n_layer": 2**31 - 1}, "n_layer is 2147483647: give a whole number from 1 to 10000"),
        ({**GPT2, "n_embd": 10**5000}, "n_embd is a number of thousands of digits"),
        ({**MIXTRAL, "num_experts_per_tok": 9}, "a token has 9 of 8 experts"),
        ({**VIT, "patch_size": 225}, "no multiple of 225"),
        ({**GPT2, "\x1b\n": 5}, "the field \\?\\? may change"),
        ({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}}, "write its `text_config` to a file"),
        (
            {"model_type": "gemma3", "text_config": {"model_type": []}},
            "unknown architecture gemma3: give FILE.py:FUNCTION",
        ),
        ({"model_type": "t5"}, "give FILE.py:FUNCTION, which builds it and is traced .* known are bert, .*, lstm"),
        ({**QWEN, "layer_types": ["sliding_attention"] * 28}, "the fields of the window give none"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_may_change_the_shape_is_refused(config: Any, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        families.read(config)


# Sizes of the default configurations of transformers 5.24, and their parameters as PyTorch counts them in the class with a head.
@pytest.mark.parametrize(
    ("config", "total", "kept"),
    [
        # 32 layers of the same experts; a latent vector of 512 and 64 elements stands for keys and values.
        (
            {
                "model_type": "deepseek_v2", "vocab_size": 102400, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
                "num_attention_heads": 32, "num_key_value_heads": 32, "moe_intermediate_size": 1407, "n_routed_experts": 64,
                "n_shared_experts": 2, "first_k_dense_replace": 0, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
                "qk_rope_head_dim": 64, "v_head_dim": 128, "tie_word_embeddings": False,
            },
            38612307968,
            576 * 32,
        ),
        # Three of four layers have linear attention, and keep no token.
        (
            {
                "model_type": "qwen3_next", "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 48,
                "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "num_experts": 512, "num_experts_per_tok": 10,
                "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "linear_conv_kernel_dim": 4,
                "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128,
                "tie_word_embeddings": False,
            },
            79674391296,
            12 * 2 * 2 * 256,
        ),
        # Every other layer has a window of 128; experts, queries and sinks have biases.
        (
            {
                "model_type": "gpt_oss", "vocab_size": 201088, "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 36,
                "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "num_local_experts": 128, "num_experts_per_tok": 4,
                "sliding_window": 128, "tie_word_embeddings": False,
            },
            116829156672,
            36 * 2 * 8 * 64,
        ),
    ],
)  # fmt: skip
def test_mixtures_keep_their_own_cache(config: dict[str, Any], total: int, kept: int) -> None:
    model = families.read(config)
    assert families.parameters(model)["total"] == total
    assert families.cache_bytes(model, 1, 1) == kept


def test_a_quantized_model_has_smaller_weights() -> None:
    small = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    sizes = [
        memory.estimate(job(config={**LLAMA, **more}, task="infer")).parts["weights"]
        for more in ({}, {"quantization_config": small})
    ]
    assert sizes[0] - sizes[1] == pytest.approx(973_078_528 * (2 - 4.15625 / 8), rel=0.001)
    with pytest.raises(Refusal, match="weights are quantized: give lora or qlora"):
        job(config={**LLAMA, "quantization_config": small})


@pytest.mark.parametrize(
    ("config", "name", "more"),
    [
        (BERT, "BertModel", 768 * 769),
        (BERT, "BertForSequenceClassification", 768 * 769 + 2 * 769),
        (BERT, "BertForTokenClassification", 2 * 769),
        (BERT, "BertForQuestionAnswering", 2 * 769),
        (BERT, "BertForMultipleChoice", 768 * 769 + 769),
        (BERT, "BertForPreTraining", 768 * 769 + 2 * 769 + 768 * 768 + 3 * 768 + 30522),
        (LLAMA, "LlamaModel", 0),
        (LLAMA, "LlamaForSequenceClassification", 2 * 2048),
        (LLAMA, "LlamaForTokenClassification", 2 * 2049),
        (LLAMA, "LlamaForQuestionAnswering", 2 * 2049),
    ],
)
def test_each_head_has_its_own_parameters(config: dict[str, Any], name: str, more: int) -> None:
    found = families.parameters(families.read({**config, "architectures": [name]}))
    assert found["head"] == more


def test_a_label_for_each_token_needs_memory_for_each() -> None:
    few, many, none = (
        memory.estimate(job(config={**BERT, "num_labels": 9, "architectures": [f"Bert{kind}"]}, batch=64, task="infer"))
        for kind in ("ForSequenceClassification", "ForTokenClassification", "Model")
    )
    assert few.parts["workspace"] < many.parts["workspace"]
    assert none.parts["workspace"] < many.parts["workspace"]


def test_a_model_without_a_head_generates_nothing() -> None:
    with pytest.raises(Refusal, match="`new_tokens` is only for inference with a model that generates"):
        job(config={**LLAMA, "architectures": ["LlamaModel"]}, task="infer", new_tokens=5)


MODERN = {
    "model_type": "modernbert",
    "hidden_size": 768,
    "intermediate_size": 1152,
    "num_hidden_layers": 22,
    "num_attention_heads": 12,
    "vocab_size": 50368,
}


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("ModernBertModel", 149_014_272),
        ("ModernBertForMaskedLM", 149_655_232),
        ("ModernBertForTokenClassification", 149_014_272 + 768 * 769 + 2 * 769),
    ],
)
def test_modernbert_has_no_biases_and_one_norm_less(name: str, total: int) -> None:
    assert families.parameters(families.read({**MODERN, "architectures": [name]}))["total"] == total


def test_every_third_layer_of_modernbert_attends_to_everything() -> None:
    assert families.read(MODERN).windows[:4] == (None, 128, 128, None)


@pytest.mark.parametrize(
    ("fields", "norms"), [({}, 1), ({"new_decoder_architecture": True}, 2), ({"num_ln_in_parallel_attn": 2}, 2)]
)
def test_later_falcons_have_a_norm_more(fields: dict[str, Any], norms: int) -> None:
    falcon = {
        "model_type": "falcon",
        "hidden_size": 512,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "vocab_size": 100,
    }
    assert families.read({**falcon, **fields}).norms == norms


def test_other_names_of_fields_are_those_of_its_class() -> None:
    own = {**GPT2, "n_embd": 1024, "n_layer": 24, "n_head": 16}
    other = {**GPT2, "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
    assert families.read(other) == families.read(own)


def test_a_classifier_has_no_logits_of_a_vocabulary() -> None:
    config = {**LLAMA, "architectures": ["LlamaForSequenceClassification"], "num_labels": 3}
    generating, classes = (memory.estimate(job(config=each, batch=8)) for each in (LLAMA, config))
    assert classes.parts["workspace"] < generating.parts["workspace"]

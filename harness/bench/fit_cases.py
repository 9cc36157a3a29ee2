"""The configurations of fit_measure.py: requests of gpu_fit that a real GPU measures.

Each request has the keys that `gpu_fit` takes, so that a prediction needs nothing else. The division into tuning and held-out
configurations is drawn by SPLIT_SEED alone. It was written before any figure of this file was predicted or measured.
"""

from __future__ import annotations

import random
from typing import Any

Case = dict[str, Any]

SPLIT_SEED = 20261125
TUNING = 10

# Shapes are those of published models, or of smaller ones of the same family.
GPT2 = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}
GPT2_MEDIUM = {**GPT2, "n_embd": 1024, "n_layer": 24, "n_head": 16}
GPT2_LARGE = {**GPT2, "n_embd": 1280, "n_layer": 36, "n_head": 20}
LLAMA_1B = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
LLAMA_3B = {
    **LLAMA_1B,
    "hidden_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 24,
    "head_dim": 128,
}
LLAMA_8B = {
    **LLAMA_1B,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "head_dim": 128,
    "tie_word_embeddings": False,
}
LLAMA_160M = {
    **LLAMA_1B,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_key_value_heads": 12,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
}
MISTRAL_1B = {
    "model_type": "mistral",
    "hidden_size": 2048,
    "intermediate_size": 7168,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
    "sliding_window": 1024,
    "tie_word_embeddings": False,
}
MISTRAL_7B = {
    **MISTRAL_1B,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "head_dim": 128,
    "sliding_window": 4096,
}
MIXTRAL = {
    "model_type": "mixtral",
    "hidden_size": 1024,
    "intermediate_size": 3584,
    "num_hidden_layers": 12,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
    "sliding_window": None,
    "tie_word_embeddings": False,
}
QWEN2 = {
    "model_type": "qwen2",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
    "use_sliding_window": False,
    "tie_word_embeddings": True,
}
GEMMA3 = {
    "model_type": "gemma3_text",
    "hidden_size": 1152,
    "intermediate_size": 6912,
    "num_hidden_layers": 26,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "vocab_size": 262144,
    "max_position_embeddings": 32768,
    "sliding_window": 512,
    "layer_types": ["full_attention" if number % 6 == 5 else "sliding_attention" for number in range(26)],
    "tie_word_embeddings": True,
}
BERT = {
    "model_type": "bert",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
}
BERT_LARGE = {
    **BERT,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
}
VIT = {
    "model_type": "vit",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "image_size": 224,
    "patch_size": 16,
    "num_channels": 3,
}
VIT_LARGE = {
    **VIT,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
}
LSTM = {"model_type": "lstm", "input_size": 512, "hidden_size": 1024, "num_layers": 4, "num_labels": 1000}


def images(name: str, model: str, task: str, batch: int, dtype: str, optimizer: str = "sgd", image: int = 224) -> Case:
    """Return a request with a model of torchvision."""
    case: Case = {"name": name, "torchvision": model, "task": task, "batch": batch, "image": image, "dtype": dtype}
    return {**case, "optimizer": optimizer} if task == "train" else case


def train(name: str, config: Case, batch: int, sequence: int, dtype: str, optimizer: str, **more: Any) -> Case:
    """Return a request that trains all weights."""
    case = {"name": name, "config": config, "task": "train", "batch": batch, "sequence": sequence, "dtype": dtype}
    return {**case, "optimizer": optimizer, **more}


def lora(name: str, config: Case, batch: int, sequence: int, targets: str, checkpointing: bool) -> Case:
    """Return a request that trains adapters of rank 16 in bf16 with AdamW."""
    case = train(name, config, batch, sequence, "bf16", "adamw", checkpointing=checkpointing)
    return {**case, "task": "lora", "lora_rank": 16, "lora_targets": targets}


def recipe(
    name: str, config: Case, task: str, batch: int, sequence: int, dtype: str, targets: str, **more: Any
) -> Case:
    """Return a request that trains adapters as users of peft and of bitsandbytes do."""
    case = train(name, config, batch, sequence, dtype, more.pop("optimizer", "adamw"), **more)
    return {**case, "task": task, "lora_rank": 16, "lora_targets": targets}


def infer(name: str, config: Case, batch: int, sequence: int, new_tokens: int = 0) -> Case:
    """Return a request for inference in bf16. *sequence* is the prompt; *new_tokens* need a KV cache."""
    case = {"name": name, "config": config, "task": "infer", "batch": batch, "sequence": sequence, "dtype": "bf16"}
    return {**case, "new_tokens": new_tokens} if new_tokens else case


CASES: list[Case] = [
    images("resnet18-fp32-sgd", "resnet18", "train", 128, "fp32"),
    images("resnet18-amp-adamw", "resnet18", "train", 512, "amp", "adamw"),
    images("resnet50-fp32-sgd", "resnet50", "train", 64, "fp32"),
    images("resnet50-amp-sgd", "resnet50", "train", 256, "amp"),
    images("resnet50-amp-320", "resnet50", "train", 48, "amp", image=320),
    images("resnet50-bf16-infer", "resnet50", "infer", 256, "bf16"),
    images("resnet50-fp32-infer", "resnet50", "infer", 64, "fp32"),
    images("resnet152-amp-sgd", "resnet152", "train", 64, "amp"),
    images("vgg16-amp-sgd", "vgg16", "train", 64, "amp"),
    images("vit_b_16-amp-adamw", "vit_b_16", "train", 128, "amp", "adamw"),
    images("vit_b_16-fp32-adamw", "vit_b_16", "train", 32, "fp32", "adamw"),
    {**train("vit-large-amp-checkpoint", VIT_LARGE, 96, 0, "amp", "adamw", checkpointing=True), "image": 224},
    {**infer("vit-bf16-infer", VIT, 256, 0), "image": 224},
    train("gpt2-amp-adamw", GPT2, 8, 1024, "amp", "adamw"),
    train("gpt2-fp32-adamw", GPT2, 4, 1024, "fp32", "adamw"),
    train("gpt2-bf16-sgd", GPT2, 16, 512, "bf16", "sgd"),
    train("gpt2-medium-amp-checkpoint", GPT2_MEDIUM, 8, 1024, "amp", "adamw", checkpointing=True),
    train("gpt2-large-bf16-adamw", GPT2_LARGE, 4, 1024, "bf16", "adamw"),
    infer("gpt2-medium-infer", GPT2_MEDIUM, 32, 512, 48),
    train("llama-160m-fp32-adamw", LLAMA_160M, 4, 1024, "fp32", "adamw"),
    train("llama-160m-amp-foreach", LLAMA_160M, 16, 1024, "amp", "adamw_foreach"),
    train("llama-1b-bf16-adamw", LLAMA_1B, 2, 2048, "bf16", "adamw"),
    train("llama-1b-bf16-checkpoint", LLAMA_1B, 4, 2048, "bf16", "adamw", checkpointing=True),
    train("llama-1b-amp-adamw", LLAMA_1B, 1, 2048, "amp", "adamw"),
    train("llama-1b-bf16-adafactor", LLAMA_1B, 2, 2048, "bf16", "adafactor", checkpointing=True),
    train("llama-3b-bf16-sgd-checkpoint", LLAMA_3B, 2, 2048, "bf16", "sgd", checkpointing=True),
    lora("llama-3b-lora-attention", LLAMA_3B, 2, 1024, "attention", False),
    lora("llama-8b-lora-all-checkpoint", LLAMA_8B, 2, 2048, "all", True),
    infer("llama-8b-infer", LLAMA_8B, 8, 2048, 48),
    infer("llama-1b-infer-long", LLAMA_1B, 48, 4096, 48),
    train("mistral-1b-bf16-adamw", MISTRAL_1B, 1, 4096, "bf16", "adamw", checkpointing=True),
    infer("mistral-7b-infer-window", MISTRAL_7B, 4, 8192, 48),
    lora("mistral-7b-lora-attention", MISTRAL_7B, 1, 2048, "attention", True),
    train("mixtral-amp-adamw", MIXTRAL, 4, 1024, "amp", "adamw"),
    infer("mixtral-infer", MIXTRAL, 16, 1024, 48),
    train("qwen2-0.5b-bf16-adamw", QWEN2, 4, 1024, "bf16", "adamw"),
    infer("gemma3-1b-infer-hybrid", GEMMA3, 32, 4096, 48),
    train("bert-amp-adamw", BERT, 32, 512, "amp", "adamw"),
    train("bert-large-fp32-sgd-checkpoint", BERT_LARGE, 16, 512, "fp32", "sgd", checkpointing=True),
    train("lstm-amp-adamw", LSTM, 128, 256, "amp", "adamw"),
    train("lstm-fp32-sgd", LSTM, 64, 256, "fp32", "sgd"),
]


# The options of common recipes, measured two days later. The same seed chooses those for tuning.
RECIPES: list[Case] = [
    recipe("llama-8b-qlora-peft", LLAMA_8B, "qlora", 2, 1024, "amp", "attention", checkpointing=True),
    recipe("llama-8b-qlora-all-peft", LLAMA_8B, "qlora", 1, 2048, "amp", "all", checkpointing=True),
    recipe("llama-8b-qlora-bf16", LLAMA_8B, "qlora", 4, 1024, "bf16", "all", checkpointing=True),
    recipe("llama-3b-qlora-peft", LLAMA_3B, "qlora", 2, 1024, "amp", "all", checkpointing=False),
    recipe("mistral-7b-qlora-peft", MISTRAL_7B, "qlora", 4, 512, "amp", "all", checkpointing=True),
    recipe("llama-1b-qlora-bf16", LLAMA_1B, "qlora", 8, 512, "bf16", "attention", checkpointing=False),
    recipe("llama-3b-lora-all", LLAMA_3B, "lora", 4, 512, "bf16", "all", checkpointing=False),
    recipe("llama-1b-lora-amp", LLAMA_1B, "lora", 4, 1024, "amp", "all", checkpointing=True),
    {**images("resnet50-amp-planar", "resnet50", "train", 256, "amp"), "channels_last": False},
    {**images("resnet50-fp32-planar", "resnet50", "train", 64, "fp32"), "channels_last": False},
    {**images("resnet152-amp-planar", "resnet152", "train", 128, "amp"), "channels_last": False},
    {**images("vgg16-fp32-planar", "vgg16", "train", 64, "fp32"), "channels_last": False},
    images("resnet101-amp-sgd", "resnet101", "train", 192, "amp"),
    {**images("resnet50-amp-infer", "resnet50", "infer", 256, "amp"), "channels_last": False},
    train("llama-1b-bf16-amp", LLAMA_1B, 2, 2048, "bf16_amp", "adamw"),
    train("gpt2-medium-bf16-amp", GPT2_MEDIUM, 8, 1024, "bf16_amp", "adamw"),
    train("llama-1b-chunked", LLAMA_1B, 4, 2048, "bf16", "adamw", chunked_loss=True),
    train("llama-3b-in-backward", LLAMA_3B, 2, 2048, "bf16", "adamw", optimizer_in_backward=True, checkpointing=True),
    train("llama-3b-8bit", LLAMA_3B, 2, 2048, "bf16", "adamw_8bit", checkpointing=True),
    train("gpt2-compiled", GPT2, 16, 1024, "amp", "adamw", compile=True),
    train("llama-1b-compiled", LLAMA_1B, 4, 2048, "bf16", "adamw", compile=True),
    train("llama-8b-large-batch", LLAMA_8B, 4, 4096, "bf16", "sgd_plain", checkpointing=True),
    {**train("vit-large-amp", VIT_LARGE, 64, 0, "amp", "adamw"), "image": 224},
    {**train("vit-amp-large-batch", VIT, 256, 0, "amp", "adamw"), "image": 224},
    infer("llama-8b-long-prompt", LLAMA_8B, 1, 16384, 16),
    infer("llama-3b-short-prompt", LLAMA_3B, 16, 256, 32),
]
SETS = {"first": CASES, "recipes": RECIPES}


def divided(chosen: str = "first") -> list[Case]:
    """Return a set of configurations in the order of measurement, each with its `split`: a run that is cut off is a random sample."""
    order = random.Random(SPLIT_SEED)  # noqa: S311 - a division, not a secret
    cases = order.sample(SETS[chosen], len(SETS[chosen]))
    tuning = {case["name"] for case in cases[:TUNING]}
    # The tuning configurations are spread over the run, too.
    order.shuffle(cases)
    return [{**case, "split": "tuning" if case["name"] in tuning else "held_out"} for case in cases]


# What the sizes of a configuration become for a test without a GPU.
_TINY = {
    "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 512, "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "max_position_embeddings": 64, "sliding_window": 16, "num_local_experts": 4, "input_size": 16,
    "num_layers": 2, "num_labels": 10, "image_size": 32, "batch": 2, "sequence": 32, "new_tokens": 4, "image": 32,
}  # fmt: skip


def tiny(case: Case) -> Case:
    """Return a configuration with sizes for a test on a processor."""
    small = {key: _TINY[key] if value and key in _TINY else value for key, value in case.items()}
    if "config" in case:
        config = {key: _TINY[key] if value and key in _TINY else value for key, value in case["config"].items()}
        if "layer_types" in config:
            config["layer_types"] = ["sliding_attention", "full_attention"]
        small["config"] = config
    if case.get("torchvision", "").startswith("vit"):
        small["image"] = 224
    return small

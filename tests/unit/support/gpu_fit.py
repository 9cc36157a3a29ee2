# SPDX-License-Identifier: GPL-3.0-or-later
"""Models and jobs for the tests of gpu_fit."""

from __future__ import annotations

from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import request

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": True,
}
GPT2: dict[str, Any] = {"model_type": "gpt2"}


def job(**given: Any) -> request.Request:
    """Return a request; without a model it is Llama's."""
    if "config" not in given and "torchvision" not in given:
        given["config"] = LLAMA
    if "config" in given:
        given.setdefault("sequence", 512)
    return request.parse(given)

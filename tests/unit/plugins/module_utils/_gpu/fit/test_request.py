# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that are refused: the variable, and the remedy."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import request
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

from tests.unit.support.gpu_fit import GPT2, LLAMA, job

MIXTRAL = {**LLAMA, "model_type": "mixtral", "intermediate_size": 2048}
LSTM = {"model_type": "lstm", "input_size": 8, "hidden_size": 8, "num_layers": 1, "num_labels": 2}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch": 0}, "`batch` is 0: give a whole number from 1"),
        ({"batch": True}, "`batch` is True"),
        ({"batch": "8"}, "`batch` is '8'"),
        ({"task": "tune"}, "`task` is 'tune': give one of train"),
        ({"dtype": "int3"}, "`dtype` is 'int3'"),
        ({"optimizer": "lion"}, "`optimizer` is 'lion'"),
        ({"bacth": 8}, "`bacth` is no option of a job: the nearest are batch"),
        ({"sequence": 0}, "`sequence` is missing"),
        ({"config": GPT2, "sequence": 2048}, "the model has 1024 positions"),
        ({"new_tokens": 8}, "`new_tokens` is only for inference"),
        ({"config": GPT2, "task": "lora"}, "`task`: adapters"),
        ({"config": MIXTRAL, "task": "qlora"}, "`task` is qlora: experts .* give lora"),
        ({"task": "infer", "checkpointing": True}, "`checkpointing` is only for training"),
        ({"gpus": 2}, "say how they share"),
        ({"sharing": "fsdp"}, "fsdp with one GPU"),
        ({"gpus": 17, "sharing": "fsdp"}, "more shards than the 16 layers"),
        ({"gpus": 3, "sharing": "tensor"}, "8 key and value heads of the model cannot be divided"),
        ({"torchvision": "resnet50", "gpus": 2, "sharing": "fsdp"}, "set ddp"),
        ({"torchvision": "resnet51"}, "resnet51 is not in the table; the nearest are resnet50"),
        ({"torchvision": "resnet50", "image": 8}, "`image` is 8"),
        ({"torchvision": "vit_b_16", "image": 225}, "a multiple of 16"),
        ({"config": LSTM, "sequence": 0}, "`sequence` is missing"),
    ],
)
def test_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        job(**given)


def test_a_model_is_needed() -> None:
    with pytest.raises(Refusal, match="`model` is missing"):
        request.parse({"batch": 1})


def test_patches_are_the_tokens_of_an_image() -> None:
    assert job(torchvision="vit_b_16", batch=2).tokens == 2 * 197


def test_defaults() -> None:
    smallest = job(config=LLAMA)
    assert (smallest.task, smallest.batch, smallest.optimizer) == ("train", 1, "adamw")

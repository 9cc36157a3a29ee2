# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that are refused: the variable, and the remedy."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import request
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

from tests.unit.support.gpu_fit import GPT2, LLAMA, job

MIXTRAL = {**LLAMA, "model_type": "mixtral", "intermediate_size": 2048}
VIT = {key: LLAMA[key] for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")}
VIT = {**VIT, "model_type": "vit", "image_size": 224, "patch_size": 16}
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
        ({"torchvision": "resnet50", "task": "lora"}, "`task`: adapters"),
        ({"config": MIXTRAL, "task": "qlora"}, "`task` is qlora: experts .* give lora"),
        ({"task": "infer", "checkpointing": True}, "`checkpointing` is only for training"),
        ({"gpus": 2}, "say how they share"),
        ({"sharing": "fsdp"}, "fsdp with one GPU"),
        ({"gpus": 3, "sharing": "tensor"}, "8 key and value heads of the model cannot be divided by it: set 2, 4, 8"),
        ({"config": {**LLAMA, "num_key_value_heads": 1}, "gpus": 2, "sharing": "tensor"}, "share by fsdp"),
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


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"checkpointing": "false"}, "`checkpointing` is 'false': give true or false"),
        ({"task": ""}, "`task` is '': give one of train"),
        ({"dtype": []}, "`dtype` is \\[\\]: give one of fp32"),
        ({"name": {}}, "`name` is {}: give at most 100 printable characters"),
        ({"name": "a\nb"}, "`name` is"),
        ({"name": "a" * 101}, "`name` is"),
        ({"batch": 10**5000}, "`batch` is a number of thousands of digits"),
        ({"image": 224}, "`image` is 224, and its model takes tokens"),
        ({"torchvision": "resnet50", "sequence": 8}, "`sequence` is 8, and the model takes images"),
        ({"config": VIT, "image": 384, "sequence": 0}, "`image` is 384, and its configuration has 224"),
        ({"config": VIT, "sequence": 8}, "`sequence` is 8, and the model takes images"),
        ({"lora_rank": 8}, "`lora_rank` and `lora_targets` are for lora and qlora, and `task` is train"),
        ({"task": "infer", "lora_targets": "all"}, "and `task` is infer: remove them"),
        (
            {"config": MIXTRAL, "task": "lora", "lora_targets": "all"},
            "experts of a mixture are no linear layers: give attention",
        ),
        ({"torchvision": "resnet50", "config": LLAMA}, "`model` is given twice"),
    ],
)
def test_what_would_have_no_effect_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        job(**given)


def test_fsdp_may_have_more_shards_than_layers() -> None:
    assert job(gpus=64, sharing="fsdp").gpus == 64


def test_a_job_in_the_words_of_trainer() -> None:
    theirs = {"per_device_train_batch_size": 4, "lora_r": 8, "load_in_4bit": True, "optim": "paged_adamw_32bit"}
    found = job(**theirs, bf16=True, fp16=False, sequence=64)
    assert (found.batch, found.sequence, found.lora_rank, found.task, found.optimizer, found.dtype) == (
        4,
        64,
        8,
        "qlora",
        "paged_adamw",
        "amp",
    )
    with pytest.raises(Refusal, match="`batch` is given twice, as `batch_size` as well"):
        job(batch=1, batch_size=2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"channels_last": True}, "`channels_last` is only for convolutional networks"),
        ({"torchvision": "resnet50", "chunked_loss": True}, "`chunked_loss` is only for training a language model"),
        ({"task": "infer", "offload": "optimizer"}, "`offload` is only for training"),
        ({"task": "infer", "optimizer_in_backward": True}, "`optimizer_in_backward` is only for training"),
        ({"offload": "weights"}, "`offload` is 'weights': give one of none, optimizer"),
        ({"compile": 1}, "`compile` is 1: give true or false"),
    ],
)
def test_an_option_without_effect_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        job(**given)

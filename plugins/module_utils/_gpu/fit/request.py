# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The request of gpu_fit: what is run, with which sizes. Pure.

Each refusal names the variable and the remedy.
"""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import families, nets
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

TASKS = ("train", "lora", "qlora", "infer")
DTYPES = ("fp32", "amp", "bf16", "fp16")
SHARING = ("none", "ddp", "fsdp", "tensor")
TARGETS = ("attention", "all")
# Elements of state for each trainable parameter, and temporary elements while a step is applied.
OPTIMIZERS = {
    "sgd_plain": (0.0, 0.0),
    "sgd": (1.0, 0.0),
    "adamw": (2.0, 0.0),
    "adamw_foreach": (2.0, 1.0),
    "adamw_8bit": (0.52, 0.0),
    "adafactor": (0.02, 2.0),
}
LIMITS = {"batch": 2**20, "sequence": 2**24, "image": 2**14, "new_tokens": 2**24, "gpus": 1024, "lora_rank": 2**14}


class Request(t.NamedTuple):
    """What is asked. One of *model* and *net* describes the network."""

    name: str
    task: str
    batch: int
    dtype: str = "bf16"
    sequence: int = 0
    image: int = 0
    new_tokens: int = 0
    optimizer: str = "adamw"
    checkpointing: bool = False
    gpus: int = 1
    sharing: str = "none"
    lora_rank: int = 16
    lora_targets: str = "attention"
    model: families.Model | None = None
    net: nets.Net | None = None
    recurrent: bool = False

    @property
    def element(self) -> int:
        """Return the bytes of an element of the activations."""
        return 4 if self.dtype == "fp32" else 2

    @property
    def trains(self) -> bool:
        """Return whether there is a backward pass."""
        return self.task != "infer"

    @property
    def adapters(self) -> bool:
        """Return whether LoRA's adapters are trained."""
        return self.task in ("lora", "qlora")

    @property
    def tokens(self) -> int:
        """Return the tokens (patches, steps) of a batch."""
        if self.model and self.model.image:
            return self.batch * ((self.model.image // self.model.patch) ** 2 + 1)
        return self.batch * max(self.sequence, 1)


def parse(given: t.Mapping[str, t.Any]) -> Request:
    """Return the request of a job.

    The network is `config` (the content of a config.json) or `torchvision` (a name).

    :raises Refusal: it cannot be estimated.
    """
    options = {"name", "config", "torchvision", "model", *Request._fields} - {"net", "recurrent"}
    other = sorted(set(given) - options - {"split", "count"})
    if other:
        raise Refusal(f"`{other[0]}` is no option of a job: the nearest are {families.nearest(other[0], options)}")
    values: dict[str, t.Any] = {"name": str(given.get("name") or given.get("torchvision") or "job")}
    for field, choices in (
        ("task", TASKS),
        ("dtype", DTYPES),
        ("optimizer", tuple(OPTIMIZERS)),
        ("sharing", SHARING),
        ("lora_targets", TARGETS),
    ):
        default = Request._field_defaults.get(field, choices[0])
        values[field] = given.get(field) or default
        if values[field] not in choices:
            raise Refusal(f"`{field}` is {values[field]!r}: give one of {', '.join(choices)}")
    for field in LIMITS:
        value = given.get(field)
        least = 0 if field in ("sequence", "image", "new_tokens") else 1
        if value is None:
            value = Request._field_defaults.get(field, 1)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LIMITS[field]:
            raise Refusal(f"`{field}` is {value!r}: give a whole number from {least} to {LIMITS[field]}")
        values[field] = value
    values["checkpointing"] = bool(given.get("checkpointing", False))
    request = Request(**values)
    return _check(_network(request, given))


def _network(request: Request, given: t.Mapping[str, t.Any]) -> Request:
    name, config = given.get("torchvision"), given.get("config")
    if (name is None) == (config is None):
        raise Refusal("`model` is missing: give a config.json, a name of torchvision, or a Python entry point")
    if name is not None:
        if name not in nets.NAMES:
            raise Refusal(
                f"`model`: the torchvision model {name} is not in the table; the nearest are {families.nearest(str(name), nets.NAMES)}; "
                "or give a Python entry point, which is traced"
            )
        request = request._replace(image=request.image or 224)
        if name in nets.VITS:
            if request.image % nets.VITS[name][0]:
                raise Refusal(f"`image` is {request.image}: {name} needs a multiple of {nets.VITS[name][0]}")
            return request._replace(model=nets.transformer(name, request.image))
        if request.image < 32:
            raise Refusal(f"`image` is {request.image}: {name} needs 32 or more")
        return request._replace(net=nets.net(name, request.image))
    if isinstance(config, dict) and config.get("model_type") == "lstm":
        return request._replace(net=nets.lstm(config), recurrent=True)
    return request._replace(model=families.read(config))


def _check(request: Request) -> Request:
    model = request.model
    if (request.recurrent or (model and not model.image)) and not request.sequence:
        raise Refusal("`sequence` is missing: give the tokens of one sequence")
    if model and model.positions and request.sequence + request.new_tokens > model.positions:
        raise Refusal(
            f"`sequence` and new tokens are {request.sequence + request.new_tokens}: the model has {model.positions} positions"
        )
    if request.new_tokens and (request.trains or model is None or not model.traits.generates):
        raise Refusal("`new_tokens` is only for inference with a model that generates: remove it")
    if request.adapters and (model is None or not model.traits.gated):
        raise Refusal(
            "`task`: adapters of LoRA are known for families of Llama only: train all weights, or give a Python entry point"
        )
    if request.task == "qlora" and model and model.experts > 1:
        raise Refusal("`task` is qlora: experts of a mixture are no linear layers, and stay in 16 bits: give lora")
    if request.checkpointing and (not request.trains or model is None):
        raise Refusal("`checkpointing` is only for training a model with layers of attention: remove it")
    if request.gpus == 1 and request.sharing != "none":
        raise Refusal(f"`sharing` is {request.sharing} with one GPU: set `gpus`, or sharing none")
    if request.gpus > 1 and request.sharing == "none":
        raise Refusal(f"`gpus` is {request.gpus}, and `sharing` none: say how they share: ddp, fsdp or tensor")
    if request.sharing in ("fsdp", "tensor") and model is None:
        raise Refusal(f"`sharing` {request.sharing} is known for models with layers of attention only: set ddp")
    if request.sharing == "fsdp" and model and request.gpus > model.layers:
        raise Refusal(
            f"`gpus` is {request.gpus}, more shards than the {model.layers} layers of the model: set {model.layers} or fewer"
        )
    if request.sharing == "tensor" and model and (model.kv_heads % request.gpus or model.heads % request.gpus):
        raise Refusal(
            f"`gpus` is {request.gpus}: the {model.kv_heads} key and value heads of the model cannot be divided by it"
        )
    return request

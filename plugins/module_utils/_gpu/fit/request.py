# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The request of gpu_fit: what is run, with which sizes. Pure.

Each refusal names the variable and the remedy.
"""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import families, nets, synonyms, wording
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

TASKS = ("train", "lora", "qlora", "infer")
DTYPES = ("fp32", "amp", "bf16", "fp16", "bf16_amp")
SHARING = ("none", "ddp", "fsdp", "tensor")
TARGETS = ("attention", "all")
OFFLOADS = ("none", "optimizer", "activations")
HALVES = ("bf16", "fp16")
SWITCHES = ("checkpointing", "channels_last", "chunked_loss", "optimizer_in_backward", "compile")
# Elements of state for each trainable parameter (of eight bits with `_8bit`), and temporary elements while a step is applied.
OPTIMIZERS = {
    "sgd_plain": (0.0, 0.0),
    "sgd": (1.0, 0.0),
    "adamw": (2.0, 0.0),
    "adamw_foreach": (2.0, 1.0),
    "paged_adamw": (2.0, 0.0),
    "adamw_8bit": (2.0, 0.0),
    "paged_adamw_8bit": (2.0, 0.0),
    "adafactor": (0.02, 2.0),
}
# Characters of a name.
NAME = 100
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
    channels_last: bool = False
    chunked_loss: bool = False
    optimizer_in_backward: bool = False
    compile: bool = False
    offload: str = "none"
    half: str = "bf16"
    all_reduce_gb_s: float = 0.0
    model: families.Model | None = None
    net: nets.Net | None = None
    recurrent: bool = False

    @property
    def element(self) -> int:
        """Return the bytes of an element of the activations."""
        return 4 if self.dtype == "fp32" else 2

    @property
    def kernels_type(self) -> str:
        """Return the type whose kernels of cuDNN a network gets: those of fp32 are like those of fp16."""
        return self.half if self.autocast else ("bf16" if self.dtype == "bf16" else "fp16")

    @property
    def autocast(self) -> bool:
        """Return whether autocast converts what layers calculate."""
        return self.dtype in ("amp", "bf16_amp")

    @property
    def weight(self) -> int:
        """Return the bytes of a weight that is not quantized."""
        return 4 if self.dtype in ("fp32", "amp") else 2

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


def parse(given: JsonObject, net: nets.Net | None = None) -> Request:
    """Return the request of a job.

    The network is `config` (the content of a config.json) or `torchvision` (a name), or else *net*.

    :raises Refusal: it cannot be estimated.
    """
    given = synonyms.translated(given)
    options = {"name", "config", "torchvision", "model", *Request._fields} - {"net", "recurrent"}
    other = sorted(set(given) - options - {"split", "count"})
    if other:
        raise Refusal(
            f"`{wording.name(other[0])}` is no option of a job: the nearest are {wording.nearest(other[0], options)}"
        )
    name = given.get("name")
    if name in (None, ""):
        name = given.get("torchvision") or "job"
    if not isinstance(name, str) or not name.isprintable() or len(name) > NAME:
        raise Refusal(f"`name` is {wording.short(name)}: give at most {NAME} printable characters")
    values: JsonObject = {"name": name}
    for field, choices in (
        ("task", TASKS),
        ("dtype", DTYPES),
        ("optimizer", tuple(OPTIMIZERS)),
        ("sharing", SHARING),
        ("lora_targets", TARGETS),
        ("offload", OFFLOADS),
        ("half", HALVES),
    ):
        default = Request._field_defaults.get(field, choices[0])
        values[field] = default if given.get(field) is None else given[field]
        if values[field] not in choices:
            raise Refusal(f"`{field}` is {wording.short(values[field])}: give one of {', '.join(choices)}")
    for field in LIMITS:
        value = given.get(field)
        least = 0 if field in ("sequence", "image", "new_tokens") else 1
        if value is None:
            value = Request._field_defaults.get(field, 1)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LIMITS[field]:
            raise Refusal(f"`{field}` is {wording.short(value)}: give a whole number from {least} to {LIMITS[field]}")
        values[field] = value
    rate = given.get("all_reduce_gb_s") or 0.0
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate <= 1e6:
        raise Refusal(f"`all_reduce_gb_s` is {wording.short(rate)}: give the GB/s that gpu_accept reports")
    values["all_reduce_gb_s"] = float(rate)
    for field in SWITCHES:
        values[field] = False if given.get(field) is None else given[field]
        if not isinstance(values[field], bool):
            raise Refusal(f"`{field}` is {wording.short(given[field])}: give true or false")
    request = Request(**values)
    return _check(request._replace(net=net) if net else _network(request, given))


def _network(request: Request, given: JsonObject) -> Request:
    name, config = given.get("torchvision"), given.get("config")
    if (name is None) == (config is None):
        given_both = "is missing" if name is None else "is given twice, as `config` and `torchvision`"
        raise Refusal(f"`model` {given_both}: give a config.json, a name of torchvision, or a Python entry point")
    if name is not None:
        if request.sequence:
            raise Refusal(f"`sequence` is {request.sequence}, and the model takes images: give `image`")
        if name not in nets.NAMES:
            near = wording.nearest(str(name), nets.NAMES)
            raise Refusal(
                f"`model`: the torchvision model {wording.name(str(name))} is not in the table; the nearest are {near}; "
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
        request = request._replace(net=nets.lstm(config), recurrent=True)
    else:
        request = request._replace(model=families.read(config))
    side = request.model.image if request.model else 0
    if request.image not in (0, side):
        remedy = (
            f"its configuration has {side}: change `image_size` there" if side else "its model takes tokens: remove it"
        )
        raise Refusal(f"`image` is {request.image}, and {remedy}")
    if side and request.sequence:
        raise Refusal(f"`sequence` is {request.sequence}, and the model takes images: remove it")
    return request


def _check(request: Request) -> Request:
    model = request.model
    if (request.recurrent or (model and not model.image)) and not request.sequence:
        raise Refusal("`sequence` is missing: give the tokens of one sequence")
    if model and model.positions and request.sequence + request.new_tokens > model.positions:
        raise Refusal(
            f"`sequence` and new tokens are {request.sequence + request.new_tokens}: the model has {model.positions} positions"
        )
    if request.new_tokens and (request.trains or model is None or not (model.traits.generates and model.logits)):
        raise Refusal("`new_tokens` is only for inference with a model that generates: remove it")
    if request.adapters and model is None:
        raise Refusal(
            "`task`: adapters of LoRA are known for models with layers of attention: train all weights, or give a Python entry point"
        )
    if request.task == "train" and model and model.weight_bytes:
        raise Refusal(
            "`task` is train, and the model's weights are quantized: give lora or qlora, or remove quantization_config"
        )
    if request.task == "qlora" and model and model.experts > 1:
        raise Refusal("`task` is qlora: experts of a mixture are no linear layers, and stay in 16 bits: give lora")
    if not request.adapters and (request.lora_rank, request.lora_targets) != (16, "attention"):
        raise Refusal(
            f"`lora_rank` and `lora_targets` are for lora and qlora, and `task` is {request.task}: remove them"
        )
    if request.adapters and request.lora_targets == "all" and model and model.experts > 1:
        raise Refusal("`lora_targets` is all: experts of a mixture are no linear layers: give attention")
    if request.checkpointing and (not request.trains or model is None):
        raise Refusal("`checkpointing` is only for training a model with layers of attention: remove it")
    if request.channels_last and (model or request.recurrent):
        raise Refusal("`channels_last` is only for convolutional networks: remove it")
    if request.chunked_loss and (not request.trains or model is None or not model.logits):
        raise Refusal("`chunked_loss` is only for training a language model: remove it")
    for field, value in (
        ("optimizer_in_backward", request.optimizer_in_backward),
        ("offload", request.offload != "none"),
    ):
        if value and not request.trains:
            raise Refusal(f"`{field}` is only for training: remove it")
    if request.half != "bf16" and not request.autocast:
        raise Refusal(f"`half` is the type of autocast, and `dtype` is {request.dtype}: remove it, or set dtype amp")
    if request.offload == "activations" and model is None:
        raise Refusal("`offload` activations is known for models with layers of attention: remove it")
    if request.all_reduce_gb_s and request.sharing not in ("ddp", "fsdp"):
        raise Refusal("`all_reduce_gb_s` is for sharing by ddp or fsdp: remove it")
    if request.gpus == 1 and request.sharing != "none":
        raise Refusal(f"`sharing` is {request.sharing} with one GPU: set `gpus`, or sharing none")
    if request.gpus > 1 and request.sharing == "none":
        raise Refusal(f"`gpus` is {request.gpus}, and `sharing` none: say how they share: ddp, fsdp or tensor")
    if request.sharing in ("fsdp", "tensor") and model is None:
        raise Refusal(f"`sharing` {request.sharing} is known for models with layers of attention only: set ddp")
    if request.sharing == "tensor" and model and (model.kv_heads % request.gpus or model.heads % request.gpus):
        possible = [
            str(gpus) for gpus in range(2, min(model.kv_heads, LIMITS["gpus"]) + 1) if model.kv_heads % gpus == 0
        ]
        raise Refusal(
            f"`gpus` is {request.gpus}: the {model.kv_heads} key and value heads of the model cannot be divided by it: "
            + (f"set {', '.join(possible)}" if possible else "share by fsdp")
        )
    return request

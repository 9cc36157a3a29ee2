"""Builds the models and steps of fit_measure.py from a configuration, with random weights: nothing is downloaded.

Models are those of transformers and torchvision, as their users get them. Where one of them is missing, ResNet and GPT-2 come from
gpu_sharing/loads.py; other configurations are skipped, with the reason.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable
from typing import Any

from harness.bench.fit_cases import Case
from harness.bench.gpu_sharing import loads

RESNETS = {"resnet18": ((2, 2, 2, 2), False), "resnet50": ((3, 4, 6, 3), True), "resnet152": ((3, 8, 36, 3), True)}
LORA_TARGETS = {
    "attention": ["q_proj", "v_proj"],
    "all": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
}


class Skipped(Exception):
    """A configuration that this machine cannot build."""


class Built:
    """A model, its step, and what a step does."""

    def __init__(self, model: Any, source: str) -> None:
        self.model, self.source = model, source
        self.optimizer: Any = None
        self.forward: Callable[[], Any] = lambda: None
        self.items, self.unit = 0, "images"
        self.decode: Callable[[], dict[str, float]] | None = None


def has(name: str) -> bool:
    """Return whether a package can be imported."""
    return importlib.util.find_spec(name) is not None


def build(torch: Any, case: Case, device: str) -> Built:
    """Build a configuration on a device."""
    quantized = case["task"] == "qlora"
    dtype = torch.bfloat16 if case["dtype"] in ("bf16", "bf16_amp") or quantized else torch.float32
    torch.manual_seed(6)
    with torch.device(device):
        built = make_model(torch, case, dtype)
    if quantized:
        quantize(torch, built, case, device)
    built.model.to(device)
    if case["task"] in ("lora", "qlora"):
        add_adapters(torch, built, case)
    if case.get("checkpointing"):
        checkpoint(built)
    inputs, targets = make_inputs(torch, built, case, dtype, device)
    if case["task"] == "infer":
        inference(torch, built, case, inputs, device)
    else:
        built.model.train()
        weights = [weight for weight in built.model.parameters() if weight.requires_grad]
        if case.get("optimizer_in_backward"):
            step_in_backward(torch, case["optimizer"], weights, device)
        else:
            built.optimizer = make_optimizer(torch, case["optimizer"], weights, device)
        training(torch, built, case, inputs, targets, device)
    return built


def make_model(torch: Any, case: Case, dtype: Any) -> Built:
    """Build the model with random weights."""
    if "torchvision" in case:
        return make_torchvision(torch, case, dtype)
    config = {key: value for key, value in case["config"].items() if key != "model_type"}
    family = case["config"]["model_type"]
    if family == "lstm":
        return Built(make_lstm(torch, config).to(dtype), "torch")
    if not has("transformers"):
        if family != "gpt2" or case["task"] == "infer" or case.get("checkpointing"):
            raise Skipped("transformers is missing")
        sizes = {"layers": config["n_layer"], "heads": config["n_head"], "width": config["n_embd"]}
        model = loads.gpt2(torch, vocabulary=config["vocab_size"], length=config["n_positions"], **sizes)
        return Built(model.to(dtype), "loads.py, as transformers is missing")
    transformers: Any = importlib.import_module("transformers")
    shape = transformers.AutoConfig.for_model(family, **config)
    kinds = {"bert": "AutoModelForMaskedLM", "vit": "AutoModelForImageClassification"}
    kind = getattr(transformers, kinds.get(family, "AutoModelForCausalLM"))
    if family == "vit":
        shape.num_labels = 1000
    model = kind.from_config(shape, dtype=dtype, attn_implementation="sdpa")
    return Built(model, f"transformers {transformers.__version__}")


def make_torchvision(torch: Any, case: Case, dtype: Any) -> Built:
    """Build a model of torchvision."""
    name = case["torchvision"]
    if has("torchvision"):
        torchvision: Any = importlib.import_module("torchvision")
        model = torchvision.models.get_model(name, weights=None)
        source = f"torchvision {torchvision.__version__}"
    elif name in RESNETS:
        model, source = loads.resnet(torch, *RESNETS[name], 1000, False), "loads.py, as torchvision is missing"
    else:
        raise Skipped("torchvision is missing")
    if planes_last(case):
        model = model.to(memory_format=torch.channels_last)
    return Built(model.to(dtype), source)


def planes_last(case: Case) -> bool:
    """Return whether images are laid out with channels last."""
    return bool(case.get("channels_last", not case["torchvision"].startswith("vit")))


def quantize(torch: Any, built: Built, case: Case, device: str) -> None:
    """Quantize linear layers to NF4 twice, and prepare the rest as peft does for autocast: in fp32."""
    if not has("bitsandbytes"):
        raise Skipped("bitsandbytes is missing")
    layers: Any = importlib.import_module("bitsandbytes.nn")
    for module in list(built.model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, torch.nn.Linear) and name != "lm_head":
                small = layers.Linear4bit(
                    child.in_features, child.out_features, False, torch.bfloat16, True, "nf4", device="meta"
                )
                small.weight = layers.Params4bit(
                    child.weight.data.cpu(), requires_grad=False, quant_type="nf4", compress_statistics=True
                )
                small.weight = small.weight.to(device)
                setattr(module, name, small)
    built.model.requires_grad_(False)
    if case["dtype"] == "amp":
        for weight in built.model.parameters():
            if weight.dtype == torch.bfloat16:
                weight.data = weight.data.float()
    torch.cuda.empty_cache()
    built.source += ", bitsandbytes"


def make_lstm(torch: Any, config: dict[str, int]) -> Any:
    """Build an LSTM with a classifier of its last step."""

    class Model(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = torch.nn.LSTM(
                config["input_size"], config["hidden_size"], config["num_layers"], batch_first=True
            )
            self.head = torch.nn.Linear(config["hidden_size"], config["num_labels"])

        def forward(self, series: Any) -> Any:
            return self.head(self.lstm(series)[0][:, -1])

    return Model()


def add_adapters(torch: Any, built: Built, case: Case) -> None:
    """Freeze the model and add LoRA's adapters, with peft where it is there."""
    rank, targets = case["lora_rank"], LORA_TARGETS[case["lora_targets"]]
    if has("peft"):
        peft: Any = importlib.import_module("peft")
        config = peft.LoraConfig(r=rank, lora_alpha=rank, target_modules=targets, task_type="CAUSAL_LM")
        built.model = peft.get_peft_model(
            built.model, config, autocast_adapter_dtype=case["dtype"] != "bf16" or case["task"] == "lora"
        )
        if case["task"] == "qlora" and case["dtype"] == "bf16":
            for weight in built.model.parameters():
                if weight.requires_grad:
                    weight.data = weight.data.to(torch.bfloat16)
        built.source += f", peft {peft.__version__}"
    else:
        built.source += ", adapters of fit_models.py, as peft is missing"
        built.model.requires_grad_(False)
        for module in list(built.model.modules()):
            for name, child in list(module.named_children()):
                if name in targets:
                    setattr(module, name, make_adapter(torch, child, rank))
    if case.get("checkpointing"):
        built.model.enable_input_require_grads()


def make_adapter(torch: Any, linear: Any, rank: int) -> Any:
    """Wrap a linear layer as peft does: adapters in fp32."""

    class Adapter(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.base = linear
            device = linear.weight.device
            self.first = torch.nn.Linear(linear.in_features, rank, bias=False, device=device)
            self.second = torch.nn.Linear(rank, linear.out_features, bias=False, device=device)

        def forward(self, x: Any) -> Any:
            result = self.base(x)
            return (result + self.second(self.first(x.float()))).to(result.dtype)

    return Adapter()


def checkpoint(built: Built) -> None:
    """Have activations calculated again, layer by layer."""
    built.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


def make_optimizer(torch: Any, name: str, weights: list[Any], device: str) -> Any:
    """Build an optimizer."""
    if name == "adamw":
        return torch.optim.AdamW(weights, lr=1e-4, fused=device == "cuda")
    if name == "adamw_foreach":
        return torch.optim.AdamW(weights, lr=1e-4, foreach=True)
    if name == "adafactor":
        return torch.optim.Adafactor(weights, lr=1e-4)
    if name == "adamw_8bit":
        if not has("bitsandbytes"):
            raise Skipped("bitsandbytes is missing")
        optimizers: Any = importlib.import_module("bitsandbytes.optim")
        return optimizers.AdamW8bit(weights, lr=1e-4)
    if name == "sgd_plain":
        return torch.optim.SGD(weights, lr=1e-3)
    return torch.optim.SGD(weights, lr=1e-3, momentum=0.9)


def step_in_backward(torch: Any, name: str, weights: list[Any], device: str) -> None:
    """Update each weight as soon as its gradient is there, and release the gradient."""
    optimizers = {weight: make_optimizer(torch, name, [weight], device) for weight in weights}

    def update(weight: Any) -> None:
        optimizers[weight].step()
        optimizers[weight].zero_grad(set_to_none=True)

    for weight in weights:
        weight.register_post_accumulate_grad_hook(update)


def chunked_loss(torch: Any, built: Built, tokens: Any) -> Any:
    """Return the loss of a language model, whose logits are calculated a chunk at a time in both passes."""
    states = built.model.model(tokens, use_cache=False).last_hidden_state
    head, checkpoint_of = built.model.lm_head, importlib.import_module("torch.utils.checkpoint").checkpoint

    def part(chunk: Any, target: Any) -> Any:
        return torch.nn.functional.cross_entropy(head(chunk).float(), target, reduction="sum")

    flat, targets = states[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
    pairs = zip(flat.split(1024), targets.split(1024), strict=True)
    return sum(checkpoint_of(part, chunk, target, use_reentrant=False) for chunk, target in pairs) / len(targets)


def make_inputs(torch: Any, built: Built, case: Case, dtype: Any, device: str) -> tuple[Any, Any]:
    """Make random inputs and targets; note what one step processes."""
    batch = case["batch"]
    config = case.get("config", {})
    if "image" in case:
        built.items, built.unit = batch, "images"
        side = case["image"]
        pixels = torch.randn(batch, 3, side, side, device=device, dtype=dtype)
        if "torchvision" in case and planes_last(case):
            pixels = pixels.to(memory_format=torch.channels_last)
        return pixels, torch.randint(0, 1000, (batch,), device=device)
    built.items, built.unit = batch * case["sequence"], "tokens"
    if config["model_type"] == "lstm":
        series = torch.randn(batch, case["sequence"], config["input_size"], device=device, dtype=dtype)
        return series, torch.randint(0, config["num_labels"], (batch,), device=device)
    tokens = torch.randint(0, config["vocab_size"], (batch, case["sequence"]), device=device)
    return tokens, tokens


def training(torch: Any, built: Built, case: Case, inputs: Any, targets: Any, device: str) -> None:
    """Set the forward pass of training, which returns the loss."""
    hugging = "transformers" in built.source and "config" in case
    entropy = torch.nn.functional.cross_entropy
    more = {} if case.get("config", {}).get("model_type") in ("vit", "bert") else {"use_cache": False}

    model = torch.compile(built.model) if case.get("compile") else built.model

    def forward() -> Any:
        with torch.autocast(device, torch.bfloat16, enabled=case["dtype"] in ("amp", "bf16_amp")):
            if case.get("chunked_loss"):
                return chunked_loss(torch, built, inputs)
            if hugging:
                return model(inputs, labels=targets, **more).loss
            return entropy(model(inputs).float(), targets.flatten())

    built.forward = forward


def inference(torch: Any, built: Built, case: Case, inputs: Any, device: str) -> None:
    """Set the forward pass of inference: images, or the prompt and then new tokens with a KV cache."""
    built.model.eval()
    new_tokens = case.get("new_tokens", 0)

    def forward() -> Any:
        with torch.inference_mode(), torch.autocast(device, torch.bfloat16, enabled=case["dtype"] == "amp"):
            return built.model(inputs)

    def synchronize() -> float:
        if device == "cuda":
            torch.cuda.synchronize()
        return time.monotonic()

    def decode() -> dict[str, float]:
        with torch.inference_mode():
            begun = synchronize()
            answer = built.model(inputs, use_cache=True, logits_to_keep=1)
            prompt = synchronize()
            for _number in range(new_tokens):
                following = answer.logits[:, -1:].argmax(-1)
                answer = built.model(following, past_key_values=answer.past_key_values, use_cache=True)
            ended = synchronize()
        return {"prompt_s": prompt - begun, "decode_s": ended - prompt}

    built.forward = forward
    if new_tokens:
        built.items, built.unit, built.decode = case["batch"] * new_tokens, "tokens", decode

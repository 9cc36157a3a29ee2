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
    dtype = torch.bfloat16 if case["dtype"] == "bf16" else torch.float32
    torch.manual_seed(6)
    with torch.device(device):
        built = make_model(torch, case, dtype)
    built.model.to(device)
    if case["task"] == "lora":
        add_adapters(torch, built, case)
    if case.get("checkpointing"):
        checkpoint(built)
    inputs, targets = make_inputs(torch, built, case, dtype, device)
    if case["task"] == "infer":
        inference(torch, built, case, inputs, device)
    else:
        built.model.train()
        weights = [weight for weight in built.model.parameters() if weight.requires_grad]
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
    if not name.startswith("vit"):
        model = model.to(memory_format=torch.channels_last)
    return Built(model.to(dtype), source)


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
        built.model = peft.get_peft_model(built.model, config)
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
    return torch.optim.SGD(weights, lr=1e-3, momentum=0.9)


def make_inputs(torch: Any, built: Built, case: Case, dtype: Any, device: str) -> tuple[Any, Any]:
    """Make random inputs and targets; note what one step processes."""
    batch = case["batch"]
    config = case.get("config", {})
    if "image" in case:
        built.items, built.unit = batch, "images"
        side = case["image"]
        pixels = torch.randn(batch, 3, side, side, device=device, dtype=dtype)
        if "torchvision" in case and not case["torchvision"].startswith("vit"):
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

    def forward() -> Any:
        with torch.autocast(device, torch.bfloat16, enabled=case["dtype"] == "amp"):
            if hugging:
                return built.model(inputs, labels=targets, **more).loss
            return entropy(built.model(inputs).float(), targets.flatten())

    built.forward = forward


def inference(torch: Any, built: Built, case: Case, inputs: Any, device: str) -> None:
    """Set the forward pass of inference: images, or the prompt and then new tokens with a KV cache."""
    built.model.eval()
    new_tokens = case.get("new_tokens", 0)

    def forward() -> Any:
        with torch.inference_mode():
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

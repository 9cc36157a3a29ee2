# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program that traces a model with PyTorch: it runs a step with tensors that have shapes and no memory. No GPU is needed.

An interpreter gets it as text. Its one argument is JSON: `entry` (PATH:FUNCTION) or `torchvision`, task, batch, sequence, image,
dtype, optimizer. The function takes no argument and returns the model. If it has an attribute `inputs(batch)`, that returns the
positional arguments of the model; otherwise they are images, or tokens below 1000. It writes one line of JSON; what the code of a user
writes to standard output goes to standard error.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import typing as t


class Request(t.TypedDict, total=False):
    """What is traced, for which step."""

    entry: str
    torchvision: str
    task: str
    batch: int
    dtype: str
    sequence: int
    image: int
    optimizer: str


class Traced(t.TypedDict, total=False):
    """The memory of each phase's peak by part, and the operations; or why there are none."""

    torch: str
    phases: list[dict[str, int]]
    parameters: int
    flops: int
    layers: int
    failed: str
    message: str


def load(request: Request) -> tuple[t.Any, t.Any]:
    """Return the model, and the function that makes its inputs or None."""
    if request.get("torchvision"):
        models: t.Any = importlib.import_module("torchvision.models")
        return models.get_model(request["torchvision"], weights=None), None
    path, _colon, name = request["entry"].rpartition(":")
    spec = importlib.util.spec_from_file_location("entry", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no file of Python")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, name)
    return function(), getattr(function, "inputs", None)


def make_inputs(torch: t.Any, request: Request, dtype: t.Any) -> tuple[t.Any, ...]:
    """Return inputs where the entry point makes none."""
    batch = request["batch"]
    if request.get("image"):
        return (torch.randn(batch, 3, request["image"], request["image"], dtype=dtype),)
    return (torch.randint(0, 1000, (batch, request["sequence"] or 1)),)


def make_optimizer(torch: t.Any, name: str, weights: t.Any) -> t.Any:
    """Return an optimizer whose state has the right size."""
    if name == "adafactor":
        return torch.optim.Adafactor(weights)
    if name.startswith("adamw"):
        return torch.optim.AdamW(weights)
    return torch.optim.SGD(weights, lr=0.1, momentum=0.0 if name == "sgd_plain" else 0.9)


def loss_of(output: t.Any, torch: t.Any) -> t.Any:
    """Return the sum of all floating point tensors of an output: a loss whose backward pass reaches each of them."""
    if isinstance(output, torch.Tensor):
        return output.float().sum() if output.is_floating_point() else 0
    values = output.values() if isinstance(output, dict) else output if isinstance(output, (list, tuple)) else ()
    return sum(loss_of(value, torch) for value in values)


def without_initial_values() -> None:
    """Have initializers write nothing: tensors have shapes alone, and some initializers draw again until values suit them."""

    def keep(tensor: t.Any, *_arguments: t.Any, **_options: t.Any) -> t.Any:
        return tensor

    initializers: t.Any = importlib.import_module("torch.nn.init")
    for name in dir(initializers):
        if name.endswith("_") and not name.startswith("__"):
            setattr(initializers, name, keep)


def without_dropout_of_attention(torch: t.Any) -> None:
    """Have attention save what it saves on a GPU: with dropout, a processor calculates the whole square of scores."""
    attention = torch.nn.functional.scaled_dot_product_attention

    def attend(*arguments: t.Any, **options: t.Any) -> t.Any:
        return attention(*arguments[:4], **{**options, "dropout_p": 0.0})

    torch.nn.functional.scaled_dot_product_attention = attend


def trace(torch: t.Any, request: Request) -> Traced:
    """Run a step on shapes, and return the memory of each phase's peak by part, and its operations."""
    fake: t.Any = importlib.import_module("torch._subclasses.fake_tensor")
    tracker: t.Any = importlib.import_module("torch.distributed._tools.mem_tracker")
    flops: t.Any = importlib.import_module("torch.utils.flop_counter")
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(request["dtype"], torch.float32)
    trains = request["task"] == "train"
    with fake.FakeTensorMode(allow_non_fake_inputs=True):
        # Tensors without memory cannot be converted, so the model is built in its type.
        without_initial_values()
        torch.set_default_dtype(dtype)
        model, inputs_of = load(request)
        torch.set_default_dtype(torch.float32)
        model.train(trains)
        inputs = inputs_of(request["batch"]) if inputs_of else make_inputs(torch, request, dtype)
        if any(isinstance(module, torch.nn.RNNBase) for module in model.modules()):
            # cuDNN holds several times what the layers of a processor save.
            return {"failed": "recurrent", "message": ""}
        without_dropout_of_attention(torch)
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        optimizer = make_optimizer(torch, request["optimizer"], weights) if trains else None

        def forward() -> t.Any:
            with torch.autocast("cpu", torch.bfloat16, enabled=request["dtype"] == "amp"):
                return model(*inputs)

        def calculate() -> None:
            if optimizer is None:
                with torch.no_grad():
                    forward()
                return
            loss_of(forward(), torch).backward()

        def update() -> None:
            if optimizer is not None:
                optimizer.step()

        def peak_of(phase: t.Callable[[], None]) -> dict[str, int]:
            memory = tracker.MemTracker()
            memory.track_external(*[part for part in (model, optimizer) if part is not None])
            with memory:
                phase()
            snapshot = next(iter(memory.get_tracker_snapshot("peak").values()))
            parts = {str(getattr(name, "value", name)).lower(): int(size) for name, size in snapshot.items()}
            parts.pop("total", None)
            return parts

        counter = flops.FlopCounterMode(display=False)
        with counter, torch.no_grad():
            forward()
        # The tracked step has the state of the optimizer from its beginning.
        calculate()
        update()
        model.zero_grad()
        # Which phase is the highest depends on the batch, so each is returned.
        phases = [peak_of(calculate), *([peak_of(update)] if optimizer is not None else [])]
    return {
        "phases": phases,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "flops": int(counter.get_total_flops()),
        "layers": sum(1 for _module in model.modules()),
    }


def main(arguments: list[str]) -> int:
    """Trace, and return the exit status."""
    result = os.dup(1)
    os.dup2(2, 1)

    def report(found: Traced) -> None:
        os.write(result, json.dumps(found).encode() + b"\n")

    try:
        torch: t.Any = importlib.import_module("torch")
        report({"torch": torch.__version__, **trace(torch, json.loads(arguments[0]))})
    except ModuleNotFoundError as error:
        report({"failed": "no_torch" if error.name == "torch" else "entry", "message": str(error)})
    # Whatever the code of a user raises, an exit included, is its result: the caller shows it.
    except BaseException as error:
        values = type(error).__name__ in ("DataDependentOutputException", "DynamicOutputShapeException")
        report(
            {"failed": "values" if values else "entry", "message": f"{type(error).__name__}: {error}".strip(": ")[:500]}
        )
        raise
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

"""A test that a GPU computes the same when MPS gives a program a part of its multiprocessors.

    python3 -m harness.bench.gpu_sharing.percentages --seconds 150 --out percentages.json

On an H100 (driver 580.159.04, PyTorch 2.11) training GPT-2 with 70 % of the multiprocessors gave NaN, twice; with 50 and 100 % it did not.
This trains it for some steps from the same seed under many percentages, compares the losses, and compares each kind of operation of it
with single precision. A private MPS daemon, no setting of the GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

from harness.bench import results
from harness.bench.gpu_sharing import cuda, loads, mps
from harness.bench.gpu_sharing.process import Lost, Process, end

PERCENTAGES = (100, 70, 50, 90, 80, 60, 75, 65, 40, 30, 20, 10)
STEPS = 40
# GPT-2 and the operations take up to 20 GiB: so many fit a card of 80 GiB at once.
AT_ONCE = 3
START_S = 90.0

Record = dict[str, Any]


def distance(found: Any, wanted: Any) -> float:
    """Return the relative distance of all numbers; NaN stays NaN."""
    found, wanted = found.detach().double(), wanted.detach().double()
    return float((found - wanted).norm() / wanted.norm())


def gradients(function: Any, inputs: list[Any], upstream: Any) -> list[Any]:
    """Return the result and the gradients of all inputs."""
    leaves = [value.detach().clone().requires_grad_() for value in inputs]
    result = function(*leaves)
    result.backward(upstream.to(result.dtype))
    return [result, *(leaf.grad for leaf in leaves)]


def operations(torch: Any) -> dict[str, list[float]]:
    """Compare each kind of operation of GPT-2 in bf16 with single precision: the distance of its result and of its gradients."""
    functional = torch.nn.functional
    torch.manual_seed(1)

    def random(*shape: int) -> Any:
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

    tokens, width = 8192, 768
    attention = [random(8, 12, 1024, 64) for _name in range(3)]
    cases: dict[str, tuple[Any, list[Any], Any]] = {
        f"linear {inputs}x{outputs}": (
            functional.linear,
            [random(tokens, inputs), random(outputs, inputs) / inputs**0.5],
            random(tokens, outputs),
        )
        for inputs, outputs in (
            (width, 3 * width),
            (width, width),
            (width, 4 * width),
            (4 * width, width),
            (width, 50304),
        )
    }
    cases["attention"] = (
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        attention,
        random(8, 12, 1024, 64),
    )
    cases["layer norm"] = (
        lambda x, weight, bias: functional.layer_norm(x, (width,), weight, bias),
        [random(tokens, width), random(width), random(width)],
        random(tokens, width),
    )
    cases["gelu"] = (
        lambda x: functional.gelu(x, approximate="tanh"),
        [random(tokens, 4 * width)],
        random(tokens, 4 * width),
    )
    found = {}
    for name, (function, inputs, upstream) in cases.items():
        # The first run of a kernel may differ from later ones, which find its memory used.
        results = [gradients(function, inputs, upstream) for _time in range(3)][-1]
        wanted = gradients(function, [value.float() for value in inputs], upstream.float())
        found[name] = [distance(value, other) for value, other in zip(results, wanted, strict=True)]
    return found


def losses(load: str, steps: int) -> list[float]:
    """Return the losses of a load."""
    step = loads.build(load)
    return [float(step().detach()) for _step in range(steps)]


def client() -> int:
    """Measure everything under the percentage of the environment, in a process of its own."""
    torch: Any = importlib.import_module("torch")
    begun = time.monotonic()
    found: Record = {"proof": cuda.proof()}
    found["losses"] = losses("G", STEPS)
    loads.free()
    found["operations"] = operations(torch)
    found["seconds"] = time.monotonic() - begun
    print(json.dumps(found), flush=True)
    return 0


def judge(found: Record, usual: Record | None) -> Record:
    """Return the first step whose loss is no number or far from that with all multiprocessors, and operations beyond 2 %."""
    odd: Record = {"first_bad_step": None, "operations": []}
    for number, loss in enumerate(found["losses"]):
        other = usual["losses"][number] if usual else loss
        if not math.isfinite(loss) or abs(loss - other) > 0.1 * abs(other) + 0.2:
            odd["first_bad_step"] = number
            break
    odd["operations"] = [
        name for name, values in found["operations"].items() if not all(value < 0.02 for value in values)
    ]
    return odd


def measure(wanted: argparse.Namespace) -> int:
    """Measure all percentages, and write the file."""
    deadline = time.monotonic() + wanted.seconds
    rows: dict[int, Record] = {}
    daemon = mps.Daemon("a")
    running: list[Process] = []
    try:
        for start in range(0, len(PERCENTAGES), AT_ONCE):
            if deadline - time.monotonic() < 20:
                break
            group = PERCENTAGES[start : start + AT_ONCE]
            for percentage in group:
                own = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(percentage)}
                running.append(
                    Process(
                        "harness.bench.gpu_sharing.percentages", "--client", environment={**daemon.environment, **own}
                    )
                )
            for percentage, process in zip(group, running, strict=True):
                try:
                    found = process.hear(min(START_S, deadline - time.monotonic()))
                    rows[percentage] = {**found, "odd": judge(found, rows.get(100))}
                except Lost as error:
                    rows[percentage] = {"failed": str(error)}
                row = rows[percentage]
                visible = row.get("proof", {}).get("multiprocessors")
                print(
                    percentage,
                    visible,
                    row.get("losses", [None])[-1],
                    row.get("odd"),
                    row.get("failed", ""),
                    flush=True,
                )
                results.write(wanted.out, rows)
            end(running)
            running = []
    finally:
        with contextlib.suppress(OSError):
            end(running)
        daemon.close()
    return 0


def main(arguments: list[str]) -> int:
    """Run the command line."""
    if arguments == ["--client"]:
        return client()
    parser = argparse.ArgumentParser(
        "harness.bench.gpu_sharing.percentages", description=(__doc__ or "").partition("\n\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=150, help="how long in all (default: %(default)s)")
    parser.add_argument(
        "--out", type=Path, default=Path("percentages.json"), help="file for the results (default: %(default)s)"
    )
    return measure(parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

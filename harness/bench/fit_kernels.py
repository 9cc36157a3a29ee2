"""Predicted beside measured: the tables of docs/gpu_fit.md from docs/measurements/gpu_fit_kernels.json.

    PYTHONPATH=collections python -m harness.bench.fit_kernels

An error is that of the prediction, relative to what was measured.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import cards, load, memory, request, speed

Table = Callable[[], Iterator[str]]
FIGURES = json.loads((Path(__file__).parents[2] / "docs/measurements/gpu_fit_kernels.json").read_text(encoding="utf-8"))


def rates(name: str, share: float = 1.0) -> load.Rates:
    """Return the measured rates of a card, of which a job has a share of the multiprocessors."""
    found, card = FIGURES["rates"][name], cards.find(name).rates()
    return load.Rates(
        found["bf16_tflops"] * share,
        found["tf32_tflops"] * share,
        found["fp32_tflops"] * share,
        found["copy_gb_s"],
        "baseline",
        card.cores * share,
    )


def rows(key: str = "rows") -> Iterator[tuple[dict[str, Any], request.Request]]:
    """Yield what was measured, with the job."""
    for row in FIGURES[key]:
        if "request" in row and row.get("tf32", True):
            given = row["request"]
            config = {"config": FIGURES["configs"][given["config"]]} if "config" in given else {}
            several = {"gpus": 2, "sharing": "ddp", "all_reduce_gb_s": 313.9} if row.get("gpus") == 2 else {}
            yield row, request.parse({**given, **config, **several})


def figures(row: dict[str, Any], job: request.Request, card: str) -> str:
    """Return the cells of a job: tensors and the time of a step."""
    need, step_s = memory.estimate(job, memory.basis_of(job)).tensors, speed.predict(job, rates(card)).step_s
    of_memory, of_speed = need / row["allocated"] - 1, step_s / row["step_s"] - 1
    cells = (
        f"{need / 1e9:.1f}, {row['allocated'] / 1e9:.1f} | {of_memory:+.0%}",
        f"{step_s * 1e3:.0f}, {row['step_s'] * 1e3:.0f} | {of_speed:+.0%}",
    )
    return " | ".join(cells).replace("%", " %")


def describe(row: dict[str, Any]) -> str:
    """Return a job in words."""
    given = row["request"]
    parts = [given["task"], str(given["batch"]) + (f" x {given['sequence']}" if "sequence" in given else "")]
    parts += [given["dtype"], *([given["optimizer"]] if "optimizer" in given else [])]
    parts += [f"{given['lora_targets']} layers" for _ in range("lora_targets" in given)]
    parts += [name for name in ("checkpointing", "compile") if given.get(name)]
    parts += [f"{given['offload']} on the host" for _ in range("offload" in given)]
    parts += ["dropout" for _ in range("lora_dropout" in row)]
    return ", ".join(parts)


def jobs() -> Iterator[str]:
    """Yield the table of all jobs but those of convolutional networks and vision transformers in eager mode."""
    yield "| configuration | job | card | tensors, GB: predicted, measured | error | step, ms: predicted, measured | error |"
    yield "|---|---|---|---|---|---|---|"
    for row, job in rows():
        if (job.model and not job.model.image) or (job.compile and "name" in row["request"]):
            name, card = row["request"]["name"], row["card"]
            yield f"| `{name}` | {describe(row)} | {card} | {figures(row, job, card)} |"


def two_gpus() -> Iterator[str]:
    """Yield the table of jobs on two GPUs; the speed is beside that of the same job on one."""
    yield (
        "| job, for each GPU | tensors, GB: predicted, measured | error | step, ms: predicted, measured | error"
        " | times one GPU: predicted, measured |"
    )
    yield "|---|---|---|---|---|---|"
    alone = {row["request"]["name"]: (row, job) for row, job in rows("two_gpus") if row["gpus"] == 1}
    for row, job in rows("two_gpus"):
        if row["gpus"] == 2:
            name = row["request"]["name"]
            single, single_job = alone[name]
            predicted = 2 * speed.predict(single_job, rates("H200")).step_s / speed.predict(job, rates("H200")).step_s
            times = f"{predicted:.2f}, {2 * single['step_s'] / row['step_s']:.2f}"
            yield f"| `{name}`: {describe(row)} | {figures(row, job, 'H200')} | {times} |"


def main() -> None:
    """Print the tables."""
    print("\n".join([*jobs(), "", *two_gpus()]))


if __name__ == "__main__":
    main()

"""Predicted against measured: the tables of docs/gpu_fit.md, from the figures that fit_measure.py wrote.

    python -m harness.bench.fit_compare docs/measurements/gpu_fit_h100.json

Beside `gpu_fit`: the estimate of accelerate (`accelerate estimate-memory`: four times the weights for training, once for inference),
Dettmers' rule of 2016 for convolutional networks (outputs of convolutions, twice), and hf-mem's (weights and KV cache). These
three are calculated by their rules, not by their programs.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import (
    cards,
    families,
    memory,
    nets,
    request,
    speed,
)

GIB = 2**30


class Row(NamedTuple):
    """One configuration. Errors are relative to what was measured."""

    name: str
    split: str
    generates: bool
    need: memory.Memory
    allocated: int
    process: int
    speed: speed.Speed
    step_s: float
    joules: float | None
    others: dict[str, float]

    @property
    def tensors_error(self) -> float:
        """Return the error of the allocator's peak."""
        return self.need.tensors / self.allocated - 1

    @property
    def process_error(self) -> float:
        """Return the error of the process' memory."""
        return self.need.total / self.process - 1

    @property
    def speed_error(self) -> float:
        """Return the error of the time of a step."""
        return self.speed.step_s / self.step_s - 1

    @property
    def inside(self) -> bool:
        """Return whether the interval has the measured memory."""
        return self.need.low <= self.process <= self.need.high


def others(job: request.Request) -> dict[str, float]:
    """Return what other rules say, in bytes."""
    count = families.parameters(job.model)["total"] if job.model else job.net.parameters  # type: ignore[union-attr]
    element = 4 if job.dtype == "fp32" else 2
    found = {"accelerate": float(count * element * (4 if job.trains else 1))}
    if job.net and not job.recurrent and job.trains:
        found["Dettmers"] = 2.0 * job.net.outputs * element * job.batch
    if job.model and not job.trains:
        cache = families.cache_bytes(job.model, job.sequence + job.new_tokens, 2) * job.batch if job.new_tokens else 0
        found["hf-mem"] = float(count * element + cache)
    return found


def rows(figures: dict[str, Any]) -> Iterator[Row]:
    """Yield the configurations that were measured."""
    found = figures["rates"]
    card = cards.find(figures["card"]["name"])
    rates = card.rates()._replace(
        bf16=found["bf16_tflops"],
        tf32=found["tf32_tflops"],
        fp32=found["fp32_tflops"],
        copy=found["copy_gb_s"],
        basis="baseline",
    )
    for case in figures["cases"]:
        given, measured = case["request"], case["measured"]
        if "rate" not in measured:
            continue
        # fit_models.py builds each ViT with the classes of ImageNet, which are no part of its configuration.
        shape = given.get("config") or {}
        labels = {"config": {**shape, "num_labels": nets.CLASSES}} if shape.get("model_type") == "vit" else {}
        # fit_models.py lays convolutional networks out so, but where a configuration says otherwise.
        last = {"channels_last": True} if given.get("torchvision", "vit").startswith(("resnet", "vgg")) else {}
        job = request.parse({**last, **given, **labels})
        yield Row(
            given["name"],
            given["split"],
            bool(job.new_tokens),
            memory.estimate(job, "formula"),
            measured["allocated"],
            measured["process"],
            speed.predict(job, rates, figures["card"]["power_limit_w"]),
            measured["step_s"],
            measured["energy_j"],
            others(job),
        )


def verdicts(found: Iterable[Row]) -> tuple[int, int, int]:
    """Return right, unsure (tight) and wrong verdicts over all cards of the table.

    A job fits in truth where its tensors and the context fit: the allocator then releases what it only keeps.
    """
    right = unsure = wrong = 0
    for row in found:
        for card in cards.CARDS:
            fits = row.allocated + memory.CONTEXT_MIB[1] * memory.MIB <= card.bytes
            if row.need.high <= card.bytes:
                right, wrong = right + fits, wrong + (not fits)
            elif row.need.low > card.bytes:
                right, wrong = right + (not fits), wrong + fits
            else:
                unsure += 1
    return right, unsure, wrong


def percent(value: float) -> str:
    """Return a signed share."""
    return f"{value:+.1%}".replace("%", " %")


def table(found: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of the table of all configurations."""
    titles = ["configuration", "tensors, GiB", "measured", "error", "process, GiB (interval)", "measured", "error"]
    titles += ["step, ms", "measured", "error", "other rules: tensors, GiB"]
    yield f"| {' | '.join(titles)} |"
    yield "|---" * len(titles) + "|"
    for row in found:
        other = ", ".join(f"{name} {size / GIB:.2f}" for name, size in row.others.items())
        inside = "" if row.inside else " **outside**"
        step = f"{row.speed.step_s * 1000:.1f} | {row.step_s * 1000:.1f} | {percent(row.speed_error)}"
        yield (
            f"| `{row.name}` | {row.need.tensors / GIB:.2f} | {row.allocated / GIB:.2f} | {percent(row.tensors_error)} "
            f"| {row.need.total / GIB:.2f} ({row.need.low / GIB:.2f} to {row.need.high / GIB:.2f}){inside} | {row.process / GIB:.2f} "
            f"| {percent(row.process_error)} | {step} | {other} |"
        )


def summary(found: list[Row]) -> Iterator[str]:
    """Yield the figures of a group."""

    def spread(errors: Iterable[float]) -> str:
        sizes = sorted(abs(error) for error in errors)
        return f"median {percent(statistics.median(sizes))[1:]}, worst {percent(sizes[-1])[1:]}" if sizes else "none"

    yield f"allocator's peak: {spread(row.tensors_error for row in found)}"
    yield f"process: {spread(row.process_error for row in found)}; in the interval: {sum(row.inside for row in found)} of {len(found)}"
    timely = sum(row.speed.low_s <= row.step_s <= row.speed.high_s for row in found)
    yield f"time of a step: {spread(row.speed_error for row in found)}; in the interval: {timely} of {len(found)}"
    energies = [row for row in found if row.joules and row.speed.joules and not row.generates]
    yield f"energy of a step, without generation: {spread(row.speed.joules / row.joules - 1 for row in energies)}"  # type: ignore[operator]
    right, unsure, wrong = verdicts(found)
    yield f"verdicts on all cards: {right} right, {unsure} tight, {wrong} wrong"
    context = memory.CONTEXT_MIB[1] * memory.MIB
    pairs = [(row, card.bytes) for row in found for card in cards.CARDS]
    right = sum((row.need.tensors + context <= size) == (row.allocated + context <= size) for row, size in pairs)
    yield f"by tensors and context alone, never tight: {right} of {len(pairs)} right"
    for name in ("accelerate", "Dettmers", "hf-mem"):
        yield f"{name}: {spread(row.others[name] / row.allocated - 1 for row in found if name in row.others)}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", type=Path)
    figures = json.loads(parser.parse_args().figures.read_text())
    found = list(rows(figures))
    for split in ("held_out", "tuning"):
        group = [row for row in found if row.split == split]
        print(f"\n{split}: {len(group)}\n")
        print("\n".join(summary(group)) + "\n")
        print("\n".join(table(group)))


if __name__ == "__main__":
    main()

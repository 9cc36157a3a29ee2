"""Predicted beside public measurements: the table of docs/gpu_fit.md from docs/measurements/gpu_fit_public.json.

    python -m harness.bench.fit_public

Nothing is tuned on these figures. A row has a job of gpu_fit, the card, and `rate`, `memory_gb` (the allocator's peak, 10^9 bytes) or both.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import cards, memory, request, speed

FIGURES = Path(__file__).parents[2] / "docs/measurements/gpu_fit_public.json"


class Row(NamedTuple):
    """One public figure: errors of the allocator's peak and of the rate, relative to it, or None."""

    kind: str
    source: str
    memory_error: float | None
    speed_error: float | None
    inside: bool


def rows() -> Iterator[Row]:
    """Yield the figures with the errors of their predictions."""
    for row in json.loads(FIGURES.read_text(encoding="utf-8"))["rows"]:
        job, card = request.parse(row["job"]), cards.find(row["card"])
        need, fast = memory.estimate(job, memory.basis_of(job)), speed.predict(job, card.rates())
        rate = row.get("rate")
        yield Row(
            row["class"],
            row["source"],
            need.tensors / (row["memory_gb"] * 1e9) - 1 if "memory_gb" in row else None,
            fast.rate / rate - 1 if rate else None,
            not rate or fast.rate_low <= rate <= fast.rate_high,
        )


def summary(found: list[Row]) -> Iterator[str]:
    """Yield a table of classes: the median of the errors with and without their sign."""

    def median(errors: list[float]) -> str:
        if not errors:
            return " | "
        size, sign = statistics.median(map(abs, errors)), statistics.median(errors)
        return f"{size:.0%} | {sign:+.0%}".replace("%", " %")

    yield "| class | figures | memory: error | with sign | speed: error | with sign | speed in the interval |"
    yield "|---|---|---|---|---|---|---|"
    for kind in dict.fromkeys(row.kind for row in found):
        group = [row for row in found if row.kind == kind]
        needs = [row.memory_error for row in group if row.memory_error is not None]
        rates = [row.speed_error for row in group if row.speed_error is not None]
        inside = f"{sum(row.inside for row in group if row.speed_error is not None)} of {len(rates)}" if rates else ""
        yield f"| {kind} | {len(group)} | {median(needs)} | {median(rates)} | {inside} |"


def main() -> None:
    """Print the table, and the sources."""
    found = list(rows())
    print("\n".join(summary(found)))
    for source in dict.fromkeys(row.source for row in found):
        print(f"- {source}")


if __name__ == "__main__":
    main()

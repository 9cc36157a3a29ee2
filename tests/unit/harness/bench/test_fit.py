# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of gpu_fit has the figures that the programs make of the measurements."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import speed

from harness.bench import fit_compare, fit_kernels, fit_public

DOCS = Path(__file__).parents[4] / "docs"
PAGE = (DOCS / "gpu_fit.md").read_text(encoding="utf-8")


def read_rows(name: str) -> list[fit_compare.Row]:
    return list(fit_compare.rows(json.loads((DOCS / "measurements" / name).read_text(encoding="utf-8"))))


@pytest.mark.parametrize("name", ["gpu_fit_h100.json", "gpu_fit_recipes_h100.json"])
def test_page_has_each_configuration(name: str) -> None:
    assert [line for line in fit_compare.table(read_rows(name)) if line not in PAGE] == []


def test_page_has_public_figures() -> None:
    assert "\n".join(fit_public.summary(list(fit_public.rows()))) in PAGE


@pytest.mark.parametrize("table", [fit_kernels.jobs, fit_kernels.two_gpus])
def test_page_has_each_job(table: fit_kernels.Table) -> None:
    assert "\n".join(table()) in PAGE


def test_page_compares_the_rules() -> None:
    found = [row for row in read_rows("gpu_fit_h100.json") if row.split == "held_out"]
    errors = {"`gpu_fit`": [abs(row.tensors_error) for row in found]}
    for row in found:
        for name, size in row.others.items():
            errors.setdefault(name, []).append(abs(size / row.allocated - 1))
    for name, sizes in errors.items():
        digits = 1 if name == "`gpu_fit`" else 0
        median, worst = (f"{size:.{digits}%}".replace("%", " %") for size in (statistics.median(sizes), max(sizes)))
        (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {name}") and line.count("|") == 6]
        assert line.endswith(f"| {median} | {worst} |")


def test_page_says_how_late_optimizers_of_bitsandbytes_are() -> None:
    late = {
        row["request"]["name"]: row["step_s"] / speed.predict(job, fit_kernels.rates(row["card"])).step_s
        for row, job in fit_kernels.rows()
        if job.optimizer.startswith("paged") or job.optimizer.endswith("8bit")
    }
    eight = next(row for row in read_rows("gpu_fit_recipes_h100.json") if row.name == "llama-3b-8bit")
    qlora = late.pop("llama-8b-qlora-paged8")
    least, most = eight.step_s / eight.speed.step_s, max(late.values())
    assert least < min(late.values()) and len(late) == 3
    text = " ".join(PAGE.split())
    assert (
        f"takes {least:.2f} (`llama-3b-8bit` above) to {most:.2f} times as long as predicted; with QLoRA, {qlora:.2f} times"
        in text
    )

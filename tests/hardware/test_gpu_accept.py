# SPDX-License-Identifier: GPL-3.0-or-later
"""The acceptance test of a real GPU, many times over, and the bench of programs that share it. Needs a GPU, its driver and PyTorch.

Nothing of the GPU is set. Where Ansible is, the module itself runs, too.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hardware import module

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
REPEATS = 20
# An interpreter with PyTorch; that of the tests has none, as a rule.
PYTHON = os.environ.get("RIGWRIGHT_TORCH_PYTHON", sys.executable)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What 20 repeats gave, in about two minutes."""
    out = tmp_path_factory.mktemp("accept") / "runs.json"
    command = [sys.executable, "-m", "harness.share.accept_runs", "--python", PYTHON, "--out", str(out)]
    done = subprocess.run(
        [*command, "--repeats", str(REPEATS), "--seconds", "150"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    print(done.stdout, done.stderr)
    assert out.exists(), done.stderr
    found: dict[str, Any] = json.loads(out.read_text())
    assert found["failure"] is None, found["failure"]
    return found


def test_a_good_card_passes_every_time(runs):
    assert runs["verdicts"]["passed"] == REPEATS, runs["problems"]


def test_every_figure_has_a_ceiling_that_it_does_not_beat(runs):
    judged = [test for test in runs["distribution"] if test not in ("matmul_fp32", "h2d", "d2h")]
    for test in judged:
        assert 0 < runs["distribution"][test]["efficiency_most"] <= 1.03, test


def test_figures_spread_by_less_than_what_a_baseline_allows(runs):
    for test, told in runs["distribution"].items():
        assert (told["most"] - told["least"]) / told["median"] < 0.05, test


def test_every_product_is_the_same_and_right(runs):
    assert all(facts["wrong"] == 0 for repeat in runs["repeats"] for facts in repeat.values())
    assert all(0 < error < 0.01 for error in runs["errors"].values())


def test_the_card_is_sampled_five_times_a_second(runs):
    assert runs["samples_per_s"] >= 5
    assert all(facts["samples"] > 0 for repeat in runs["repeats"] for facts in repeat.values())


def test_the_module_gives_the_same_verdict(tmp_path):
    if importlib.util.find_spec("ansible") is None:
        pytest.skip("no Ansible here: the measuring itself is tested above")
    arguments = {"python": PYTHON, "quick": True, "windows": 1, "directory": str(tmp_path), "user": "root"}
    result = module.told("gpu_accept", arguments)
    assert result["verdict"] == "passed", result
    assert result["changed"]


def test_two_programs_share_the_card_in_every_mode_that_it_has(tmp_path):
    out = tmp_path / "share.json"
    command = [PYTHON, "-m", "harness.share", "--part", "0", "--seconds", "150", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)
    found = json.loads(out.read_text())

    assert done.returncode == 0
    assert {row["mode"] for row in found["summary"] if row["windows"] and not row["failed"]} >= {
        "time-sliced",
        "mps",
        "mps 50/50",
        "two servers",
    }

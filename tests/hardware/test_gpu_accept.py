# SPDX-License-Identifier: GPL-3.0-or-later
"""Many acceptance tests of a real GPU, and the bench of programs that share it. Needs a GPU, its driver and PyTorch.

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

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import compare, workers  # noqa: E402

from harness import adhoc  # noqa: E402
from harness.bench import results  # noqa: E402

pytestmark = pytest.mark.gpu

REPEATS = 20
# An interpreter with PyTorch; that of the tests has none, as a rule.
PYTHON = os.environ.get("RIGWRIGHT_TORCH_PYTHON", sys.executable)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run 20 repeats, in about two minutes."""
    out = tmp_path_factory.mktemp("accept") / "runs.json"
    command = [sys.executable, "-m", "harness.bench.gpu_sharing.accept_runs", "--python", PYTHON, "--out", str(out)]
    done = subprocess.run(
        [*command, "--repeats", str(REPEATS), "--seconds", "150"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    print(done.stdout, done.stderr)
    assert out.exists(), done.stderr
    found: dict[str, Any] = json.loads(out.read_text())
    assert found["failure"] is None, found["failure"]
    return found


def test_healthy_card_passes_every_time(runs):
    assert runs["verdicts"]["passed"] == REPEATS, runs["problems"]


def test_no_figure_is_above_its_ceiling(runs):
    judged = [test for test in runs["distribution"] if test not in ("h2d", "d2h", "h2d_d2h")]
    for test in judged:
        assert 0 < runs["distribution"][test]["efficiency_most"] <= 1.03, test


def test_figures_spread_less_than_a_baseline_allows(runs):
    for test, figures in runs["distribution"].items():
        assert (figures["most"] - figures["least"]) / figures["median"] < compare.allowed(test), test


def test_every_product_is_the_same_and_right(runs):
    assert all(facts["wrong"] == 0 for repeat in runs["repeats"] for facts in repeat.values())
    limits = {"matmul_fp8": 0.1}
    assert all(0 <= error < limits.get(test, 0.01) for test, error in runs["errors"].items()), runs["errors"]


def test_the_card_is_sampled_five_times_a_second(runs):
    assert runs["samples_per_s"] >= 5
    assert all(facts["samples"] > 0 for repeat in runs["repeats"] for facts in repeat.values())


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the module on this machine."""
    if importlib.util.find_spec("ansible") is None:
        pytest.skip("no Ansible here: the measuring itself is tested above")
    folder = tmp_path_factory.mktemp("baselines")
    result = adhoc.result_of(
        "gpu_accept", {"python": PYTHON, "quick": True, "windows": 1, "directory": str(folder), "user": "root"}
    )
    out = os.environ.get("RIGWRIGHT_ACCEPT_OUT")
    if out:
        results.write(Path(out), result)
    return result


def test_the_module_gives_the_same_verdict(accepted):
    assert accepted["verdict"] == "passed", accepted
    assert accepted["changed"]


def test_most_of_the_free_memory_keeps_all_patterns(accepted):
    for gpu in accepted["gpus"]:
        memory = gpu["memory_test"]
        print(memory)
        assert memory["share"] > 0.89
        assert (memory["wrong"], memory["first"]) == (0, None)


def test_links_are_measured_or_skipped(accepted):
    several = len(accepted["gpus"]) > 1
    found = {row["id"]: row["status"] for row in accepted["findings"]}
    print(json.dumps(accepted["links"]))
    for name in ("pairs", "all_reduce"):
        assert (found[f"gpu_accept.{name}"] == "skip") is not several
    assert all(bool(gpu["together"]) is several for gpu in accepted["gpus"])


CORRUPT = """
import json, sys
first = []
take = {patterns}.take_memory
def kept(*arguments):
    first[:] = take(*arguments)
    return first
{patterns}.take_memory = kept
class Faulty({loads}.Gpu):
    def synchronize(self):
        super().synchronize()
        if first:
            first[1][12345] |= 1 << 9
import torch
{patterns}.fill_memory(Faulty(torch, 6, 1), 0.1, lambda event, **facts: print(json.dumps(dict(event=event, **facts))))
"""


def test_stuck_bit_is_found_on_the_card():
    """Compare on the GPU itself, with a word that the test changes."""
    names = {name.rpartition(".")[2]: f"sys.modules[{name!r}]" for name, _text in workers.sources()}
    text = workers.STARTER.rpartition("raise")[0] + CORRUPT.format(**names)
    done = subprocess.run(
        [PYTHON, "-c", text], input=json.dumps(workers.sources()) + "\n", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    print(figures)
    # Zeros and 0x55 (bit 9 of which is not set), and some of the addresses and random numbers.
    assert figures["wrong"] >= 1
    assert (figures["first"]["pattern"], figures["first"]["bits"]) == ("zeros", [9])
    # The word is in the second piece, and all pieces are of one size.
    assert figures["tested_bytes"] % (figures["first"]["offset"] - 12345 * 8) == 0


def test_two_programs_share_the_card_in_every_mode(tmp_path):
    out = tmp_path / "share.json"
    command = [PYTHON, "-m", "harness.bench.gpu_sharing", "--part", "0", "--seconds", "150", "--out", str(out)]
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

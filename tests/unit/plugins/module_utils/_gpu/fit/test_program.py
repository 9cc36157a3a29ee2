# SPDX-License-Identifier: GPL-3.0-or-later
"""The program gpu-fit, its files, and tracing with an interpreter of a test."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import program

CHECKOUT = Path(__file__).parents[6]


def shown(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, str, str]:
    status = program.main([str(argument) for argument in arguments])
    output = capsys.readouterr()
    return status, output.out, output.err


def test_a_table_for_a_network(capsys: pytest.CaptureFixture[str]) -> None:
    status, output, _error = shown(capsys, "resnet50", "--batch", 64, "--card", "L4")
    assert status == 0
    assert "basis table" in output and "largest batch" in output and "L4" in output


def test_json_for_a_configuration(capsys: pytest.CaptureFixture[str], config: Path) -> None:
    for model in (config, config.parent):
        status, output, _error = shown(capsys, model, "--sequence", 128, "--card", "L4", "--json")
        found = json.loads(output)["jobs"][0]
        assert status == 0 and found["name"] == "llama"
        assert sum(found["need_bytes"]["parts"].values()) == found["need_bytes"]["total"]


def test_compare_writes_a_page(capsys: pytest.CaptureFixture[str], tmp_path: Path, config: Path) -> None:
    jobs = [{"model": "resnet50", "batch": 8}, {"model": str(config), "sequence": 64, "count": 3}]
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    (tmp_path / "prices.json").write_text('{"currency": "EUR", "prices": {"L4": 2500, "T4": 900}}')
    status, output, _error = shown(
        capsys,
        "--compare",
        tmp_path / "jobs.json",
        "--prices",
        tmp_path / "prices.json",
        "--by",
        "money",
        "--html",
        tmp_path / "page.html",
    )
    assert status == 0
    assert "for 1000 EUR" in output and "at once on one" in output
    assert "<svg" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "`model` is missing"),
        (("resnet5",), "neither a file nor a name of torchvision; the nearest are resnet"),
        (("resnet50", "--batch", "0"), "`batch` is 0"),
        (("resnet50", "--card", "RTX 4099"), "the nearest are RTX 4090"),
        (("resnet50", "--baseline", "/does/not/exist"), "`baseline`: /does/not/exist cannot be read"),
        (("--compare", "/does/not/exist"), "`jobs`: /does/not/exist cannot be read"),
        (("resnet50", "--html", "/does/not/exist"), "`html`: /does/not/exist cannot be written"),
        (("model.py:build",), "`python` is missing"),
        (("model.py:build", "--task", "lora"), "`task`: a traced model"),
        (("model.py:build", "--gpus", "2", "--sharing", "ddp"), "`gpus`: a traced model"),
    ],
)
def test_one_error_with_variable_and_remedy(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    status, output, error = shown(capsys, *arguments)
    assert (status, output) == (2, "")
    assert message in error and len(error.splitlines()) == 1


def test_the_script_runs_from_the_checkout() -> None:
    done = subprocess.run([CHECKOUT / "script/gpu-fit", "--help"], capture_output=True, text=True, check=True)
    assert "--compare" in done.stdout

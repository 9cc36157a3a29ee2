# SPDX-License-Identifier: GPL-3.0-or-later
"""The module gpu_fit, for named cards and for those of a fake host."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.baseline import CIRCUMSTANCES, KEPT
from ansible_collections.rigwright.workstation.plugins.modules import gpu_fit

from harness.fakes import nvml as fake_nvml

Run = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("check", [False, True])
def test_named_cards(run_module: Run, check: bool) -> None:
    found = run_module(
        gpu_fit, check=check, model="resnet50", batch=64, dtype="amp", cards=["RTX 4090", "T4", "Tesla T4"]
    )
    assert not found["changed"]
    assert [row["card"] for row in found["cards"]] == ["RTX 4090", "T4"]
    assert found["cards"][0]["fits"] == "yes"


def test_cards_of_the_host_with_a_baseline(run_module: Run, tmp_path: Path) -> None:
    with fake_nvml.fake(["H200", "H200", "RTX 4090"]) as machine:
        uuid = machine.gpus[0].uuid
        rates = {"matmul_bf16": 660.0, "copy": 4300.0}
        tests = {name: {**dict.fromkeys(KEPT), "value": value} for name, value in rates.items()}
        baseline = {**dict.fromkeys(CIRCUMSTANCES), "uuid": uuid, "day": "2026-11-25", "tests": tests}
        (tmp_path / f"{uuid}.json").write_text(json.dumps(baseline))
        found = run_module(gpu_fit, model="resnet50", directory=str(tmp_path))
        assert machine.writes == 0
    assert [row["card"] for row in found["cards"]] == ["H200 SXM 141 GB", "RTX 4090"]
    assert [row["rates_from"] for row in found["cards"]] == ["baseline", "sheet"]


def test_a_host_without_a_gpu_needs_names(run_module: Run, tmp_path: Path) -> None:
    with fake_nvml.fake([]):
        found = run_module(gpu_fit, model="resnet50", directory=str(tmp_path))
    assert found["failed"] and "name cards of the table" in found["msg"]


def test_an_error_names_variable_and_remedy(run_module: Run) -> None:
    found = run_module(gpu_fit, model="resnet50", batch=0, cards=["L4"])
    assert found["failed"] and "`batch` is 0: give" in found["msg"]


def test_the_documentation_names_every_result(run_module: Run) -> None:
    found = run_module(gpu_fit, model="resnet50", cards=["L4"])
    documented = yaml.safe_load(gpu_fit.RETURN)
    assert documented.keys() == found.keys() - {"changed", "invocation", "warnings"}
    assert documented["cards"]["contains"].keys() == found["cards"][0].keys()

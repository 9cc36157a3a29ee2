# SPDX-License-Identifier: GPL-3.0-or-later
"""The module gpu_info on fake GPUs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import nvml
from ansible_collections.rigwright.workstation.plugins.modules import gpu_info

from harness.fakes import nvml as fake_nvml

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def info(run_module: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(gpu_info, "ROOT", str(tmp_path))
    return lambda **params: run_module(gpu_info, **params)


@pytest.mark.parametrize("check", [False, True])
def test_gpus_are_returned_and_nothing_is_written(info: Run, check: bool) -> None:
    with fake_nvml.fake(["H200", "RTX 4090"]) as machine:
        found = info(check=check)
        assert machine.writes == 0
    assert not found["changed"]
    assert [row["uuid"] for row in found["gpus"]] == [gpu.uuid for gpu in machine.gpus]
    assert found["driver"]["problem"] is None


def test_driver_library_mismatch_does_not_fail(info: Run) -> None:
    with fake_nvml.fake(["H200"]) as machine:
        machine.upgrade_library("590.48.01")
        found = info()
    assert not found.get("failed")
    assert found["driver"]["problem"]["nvml_error"] == "LIB_RM_VERSION_MISMATCH"


def test_missing_binding_does_not_fail(info: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "pynvml", None)
    monkeypatch.setattr(nvml, "PYTHON", "/does/not/exist")
    found = info()
    assert not found.get("failed")
    assert found["driver"]["problem"]["nvml_error"] == "BINDING_NOT_FOUND"


def test_the_documentation_names_every_fact_of_a_gpu(info: Run) -> None:
    with fake_nvml.fake(["H200"]):
        found = info()
    documented = yaml.safe_load(gpu_info.RETURN)
    assert documented["gpus"]["contains"].keys() == found["gpus"][0].keys()
    assert documented.keys() == found.keys() - {"changed", "invocation", "warnings"}
    assert documented["driver"]["contains"].keys() == found["driver"].keys()

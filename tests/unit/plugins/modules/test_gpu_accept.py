# SPDX-License-Identifier: GPL-3.0-or-later
"""The module gpu_accept: its refusals. The tests of _gpu/accept/run.py cover its measurements."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.modules import gpu_accept

from harness.fakes.nvml import fake

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def machine() -> Iterator[Any]:
    with fake(["H200"]) as found:
        yield found


@pytest.fixture
def accept(run_module: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    def run(**params: Any) -> dict[str, Any]:
        return run_module(gpu_accept, **{"python": "/nowhere/python", "directory": str(tmp_path), **params})

    return run


def test_upgraded_driver_is_an_error_with_its_name(accept: Run, machine: Any):
    machine.upgrade_library("590.48.01")

    result = accept()

    assert (result["failed"], result["nvml_error"]) == (True, "LIB_RM_VERSION_MISMATCH")
    assert "reboot" in result["next_step"]


def test_a_directory_that_others_may_write_is_refused(accept: Run, machine: Any, tmp_path: Path):
    tmp_path.chmod(0o777)

    result = accept()

    assert f"`directory`: users other than root may write in {tmp_path}, and" in result["msg"]
    assert "could put a link" not in accept(baseline="ignore").get("msg", "")


def test_impossible_request_is_refused(accept: Run, machine: Any):
    result = accept(windows=0)

    assert (result["failed"], result["msg"]) == (True, "`windows` is 0: give 1 to 1000. Nothing was measured.")


def test_unknown_gpu_is_refused_with_the_gpus_of_the_host(accept: Run, machine: Any):
    result = accept(gpus=["GPU-none"])

    assert result["failed"]
    assert machine.gpus[0].uuid in result["msg"] and result["msg"].endswith("Nothing was measured.")


def test_without_an_interpreter_nothing_is_measured(accept: Run, machine: Any):
    result = accept()

    assert (result["changed"], result["verdict"]) == (False, "not_measured")

# SPDX-License-Identifier: GPL-3.0-or-later
"""The device of a place, and the command lines that start the program."""

from __future__ import annotations

import contextlib
import ctypes
import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke import facts, plan, request

PROGRAM = Path(__file__).parents[6] / "roles/smoke_test/files/train_digits.py"
LAB = request.Place(request.IMAGE, "lab/pytorch:2.9", "python3", "lab/pytorch:2.9")
UUID = "GPU-00000000-0000-0000-0000-000000000001"
WITH_GPU = facts.Host(1, (UUID,))
ALL = ("--device", "nvidia.com/gpu=all")


@pytest.mark.parametrize(
    ("requested", "host", "device"),
    [
        ("auto", WITH_GPU, "cuda"),
        ("auto", facts.Host(1, words="nvidia-smi: No such file or directory"), "cuda"),
        ("auto", facts.Host(0), "cpu"),
        ("cpu", WITH_GPU, "cpu"),
        ("cuda", facts.Host(0), "cuda"),
    ],
)
def test_host_with_a_gpu_has_to_use_it(requested, host, device):
    assert plan.device_for(request.Place(request.ENVIRONMENT, "torch", "python", device=requested), host) == device


def test_interpreter_runs_isolated():
    arguments = plan.python_arguments("cpu", 20, 0.95, 300)
    assert arguments == [
        "-I",
        "-B",
        "-",
        "--device",
        "cpu",
        "--epochs",
        "20",
        "--accuracy",
        "0.95",
        "--timeout",
        "300",
        "--memory",
        "0",
    ]
    # The program knows them all.
    options = {option for option in arguments if option.startswith("--")}
    assert options <= set(re.findall(r"--\w+", PROGRAM.read_text()))


def test_training_on_a_gpu_states_its_memory():
    need = plan.need()
    # 1 x 9 x 16 + 16, 16 x 9 x 32 + 32, 512 x 64 + 64 and 64 x 10 + 10 weights in fp32.
    assert need.parts["weights"] == 4 * (160 + 4640 + 32832 + 650)
    assert plan.python_arguments("cuda", 20, 0.95, 300)[-1] == str(need.low)


@pytest.mark.parametrize(
    ("free", "problem"), [(400, ""), (100, f"it needs 382 MiB of {UUID}, of which 100 MiB are free")]
)
def test_training_is_not_started_on_a_full_gpu(free: int, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = runpy.run_path(str(PROGRAM))

    def memory_info(_handle: Any, memory: Any) -> int:
        memory[:] = (2**34, free * 2**20, 2**34 - free * 2**20)
        return 0

    functions = {"nvmlInit_v2": lambda: 0, "nvmlDeviceGetHandleByUUID": lambda _uuid, _handle: 0}
    library = SimpleNamespace(**functions, nvmlDeviceGetMemoryInfo=memory_info)
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: library)
    with pytest.raises(program["Failed"], match=problem) if problem else contextlib.nullcontext():
        program["check_memory"](UUID, 382 * 2**20)


def test_container_is_sandboxed_and_removed():
    command = plan.container_command(LAB, "once", "65534:65534", ALL, ["-", "--epochs", "1"])
    assert command[-6:] == ["--entrypoint", "python3", "lab/pytorch:2.9", "-", "--epochs", "1"]
    line = " ".join(command)
    for option in ("--rm", "--network none", "--user 65534:65534", "--cap-drop ALL", "--pull never", " ".join(ALL)):
        assert option in line

# SPDX-License-Identifier: GPL-3.0-or-later
"""The device of a place, and the command lines that start the program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke import facts, plan, request

PROGRAM = Path(__file__).parents[6] / "roles/smoke_test/files/train_digits.py"
LAB = request.Place(request.IMAGE, "lab/pytorch:2.9", "python3", "lab/pytorch:2.9")
WITH_GPU = facts.Host(1, ("GPU-00000000-0000-0000-0000-000000000001",))
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
    arguments = plan.python_arguments("cuda", 20, 0.95, 300)
    assert arguments == [
        "-I",
        "-B",
        "-",
        "--device",
        "cuda",
        "--epochs",
        "20",
        "--accuracy",
        "0.95",
        "--timeout",
        "300",
    ]
    # The program knows them all.
    options = {option for option in arguments if option.startswith("--")}
    assert options <= set(re.findall(r"--\w+", PROGRAM.read_text()))


def test_container_is_sandboxed_and_removed():
    command = plan.container_command(LAB, "once", "65534:65534", ALL, ["-", "--epochs", "1"])
    assert command[-6:] == ["--entrypoint", "python3", "lab/pytorch:2.9", "-", "--epochs", "1"]
    line = " ".join(command)
    for option in ("--rm", "--network none", "--user 65534:65534", "--cap-drop ALL", "--pull never", " ".join(ALL)):
        assert option in line

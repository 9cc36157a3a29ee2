# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about CUDA, from what compilers and sessions wrote."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import cuda_verify

PLAN: Any = {"root": "/usr/local/cuda", "default": "13.0", "gpus": 1, "install": []}
NVCC = "/usr/local/cuda/bin/nvcc"
# As nvcc 13.0 writes it.
VERSION = (
    "nvcc: NVIDIA (R) Cuda compiler driver\nCopyright (c) 2005-2025 NVIDIA Corporation\n"
    "Built on Wed_Aug_20_01:58:59_PM_PDT_2025\nCuda compilation tools, release 13.0, V13.0.88\n"
)
MISSING = (127, "", f"{NVCC}: No such file or directory")


class Host:
    """Programs with scripted outcomes, and the command lines that were run."""

    def __init__(self, **outcomes: tuple[int, str, str]) -> None:
        self.outcomes = outcomes
        self.programs: list[str] = []
        self.texts: list[str] = []

    def run(self, command: Sequence[str], **_options: Any) -> tuple[int, str, str]:
        name = "compile" if "-o" in command else Path(command[0]).name
        if name == "compile":
            self.texts.append(Path(command[-1]).read_text())
        self.programs.append(name)
        return self.outcomes.get(name, (0, VERSION, ""))


def found(host: Host, **plan: Any) -> dict[str, tuple[str, str]]:
    request: Any = {"program": "int main() {}"}
    rows = cuda_verify.findings(host.run, request, PLAN | plan)
    return {row["id"]: (row["status"], row["evidence"]) for row in rows}


def test_a_toolkit_that_works_passes() -> None:
    host = Host(device_query=(0, "NVIDIA H100: 132 multiprocessors\n", ""), compile=(0, "", ""))

    assert found(host) == {
        "cuda.compiler": (
            "pass",
            f"{NVCC} is 13.0, the default is 13.0; compiling device_query.cu ended with 0 ",
        ),
        "cuda.environment": ("pass", "nvcc is found in every kind of session"),
        "cuda.device": ("pass", "NVIDIA H100: 132 multiprocessors\n"),
    }
    assert host.texts == ["int main() {}"]
    assert host.programs == ["nvcc", "compile", "device_query", "env", "env", "systemd-run"]


def test_without_a_gpu_the_program_is_compiled_and_not_run() -> None:
    host = Host()

    assert found(host, gpus=0)["cuda.device"] == ("skip", "no NVIDIA GPU here: compiled, not run")
    assert "device_query" not in host.programs


def test_a_missing_toolkit_fails() -> None:
    rows = found(Host(nvcc=MISSING, compile=MISSING, env=(127, "", "sh: nvcc: not found\n")))

    assert rows["cuda.compiler"] == (
        "fail",
        f"{NVCC} is missing, the default is 13.0; compiling device_query.cu ended with 127 {MISSING[2]}",
    )
    assert rows["cuda.environment"] == (
        "fail",
        "a login shell, a session without a login shell: nvcc is not found",
    )
    assert rows["cuda.device"] == ("fail", "did not compile")


@pytest.mark.parametrize("executed", [(1, "", ""), (0, "", "")])
def test_a_program_without_output_is_reported(executed: tuple[int, str, str]) -> None:
    row = cuda_verify.device(executed, 1)
    assert row["evidence"] == f"device_query ended with {executed[0]} and no output"


def test_another_default_fails_and_errors_are_shortened() -> None:
    row = cuda_verify.compiler(
        NVCC, (0, VERSION, ""), (1, "", "x" * 400), {**PLAN, "default": "12.9", "install": ["a"]}
    )

    assert row["status"] == "fail"
    assert row["evidence"].endswith(f"the default is 12.9; compiling device_query.cu ended with 1 {'x' * 297}...")
    assert row["remedy"] == "run the role again, and look at the output of apt about a"

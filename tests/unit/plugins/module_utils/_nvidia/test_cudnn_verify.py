# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about cuDNN, from what compilers and test programs wrote."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import cudnn_verify

PROGRAMS: Any = {cudnn_verify.VERSION: "version", cudnn_verify.CONVOLUTION: "convolution"}
# As gcc 12 writes it where no cuDNN is installed.
NO_HEADER = (
    1,
    "",
    "cudnn_version.c:4:10: fatal error: cudnn.h: No such file or directory\ncompilation terminated.\n",
)


def found(gpus: int = 0, planned: Sequence[Any] = (), **outcomes: tuple[int, str, str]) -> dict[str, tuple[str, str]]:
    def run(command: Sequence[str], **_options: Any) -> tuple[int, str, str]:
        if command[0] == "cc":
            assert Path(command[3]).read_text() == "version"
        return outcomes.get(Path(command[0]).name, (0, "", ""))

    request: Any = {"programs": PROGRAMS}
    rows = cudnn_verify.findings(run, request, {"gpus": gpus, "findings": planned})
    return {row["id"]: (row["status"], row["evidence"]) for row in rows}


def test_headers_and_library_of_one_version_pass() -> None:
    rows = found(version=(0, "headers: 91200\nlibrary: 91200\n", ""))

    assert rows["cudnn.version"] == ("pass", "headers: 91200, library: 91200")
    assert rows["cudnn.convolution"] == ("skip", "no NVIDIA GPU here")


def test_headers_of_another_version_fail() -> None:
    rows = found(version=(1, "headers: 80905\nlibrary: 91200\n", ""))

    assert rows["cudnn.version"] == ("fail", "headers: 80905, library: 91200")


def test_a_program_that_does_not_compile_fails() -> None:
    status, evidence = found(cc=NO_HEADER)["cudnn.version"]

    assert (status, evidence) == ("fail", ", ".join(NO_HEADER[2].strip().split("\n")))


def test_a_missing_compiler_fails() -> None:
    assert found(cc=(127, "", "cc: No such file or directory"))["cudnn.version"] == (
        "fail",
        "cc: No such file or directory",
    )
    assert found(version=(1, "", ""))["cudnn.version"] == ("fail", "cc ended with 0, and the test program with 1")


def test_a_convolution_on_the_gpu() -> None:
    assert found(1, bash=(0, "convolved\n", ""))["cudnn.convolution"] == ("pass", "convolved")
    assert found(1, bash=(127, "", "bash: nvcc: command not found\n"))["cudnn.convolution"] == (
        "fail",
        "bash: nvcc: command not found",
    )


def test_the_proof_says_what_the_plan_found() -> None:
    planned: Any = {"id": "cudnn.gpus", "status": "warn", "evidence": "the GPU of Pascal has no kernels", "remedy": ""}
    assert found(1, [planned])["cudnn.gpus"] == ("warn", "the GPU of Pascal has no kernels")

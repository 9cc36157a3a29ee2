# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use a CUDA toolkit as its users do, and return what was found."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_run import CudaRequest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.trial import (
    Outcome,
    Run,
    shorten,
    sources,
)

PROGRAM = "device_query"
# The sessions of users: a login shell, a command without one (PAM, as with ssh), a service with the documented line.
SESSIONS = {
    "a login shell": ["env", "-i", "HOME=/root", "/bin/bash", "--login", "-c", "nvcc --version"],
    "a session without a login shell": ["env", "-i", "su", "root", "-c", "nvcc --version"],
    "a service with EnvironmentFile=/etc/default/cuda": [
        *("systemd-run", "--quiet", "--wait", "--pipe", "--property=EnvironmentFile=-/etc/default/cuda"),
        *("sh", "-c", "nvcc --version"),
    ],
}


def findings(run: Run, request: CudaRequest, plan: JsonObject) -> list[Finding]:
    """Compile and run the test program, and look for the compiler in every kind of session."""
    nvcc = f"{plan['root']}/bin/nvcc"
    version = run([nvcc, "--version"])
    executed: Outcome | None = None
    with sources({f"{PROGRAM}.cu": request["program"]}) as directory:
        program = f"{directory}/{PROGRAM}"
        compiled = run([nvcc, "-o", program, f"{program}.cu"])
        if compiled[0] == 0 and plan["gpus"] > 0:
            executed = run([program])
    sessions = {name: run(command) for name, command in SESSIONS.items()}
    return [compiler(nvcc, version, compiled, plan), environment(sessions), device(executed, plan["gpus"])]


def compiler(nvcc: str, version: Outcome, compiled: Outcome, plan: JsonObject) -> Finding:
    """Check that the default compiler is the requested one, and compiles."""
    match = re.search(r"release ([0-9.]+)", version[1])
    found = match.group(1) if match else ""
    return finding(
        "cuda.compiler",
        "pass" if compiled[0] == 0 and found == plan["default"] else "fail",
        f"{nvcc} is {found or 'missing'}, the default is {plan['default']};"
        f" compiling device_query.cu ended with {compiled[0]} {shorten(compiled[2], 300)}",
        f"run the role again, and look at the output of apt about {', '.join(plan['install']) or 'the toolkit'}",
    )


def environment(sessions: t.Mapping[str, Outcome]) -> Finding:
    """Check that every kind of session finds the compiler.

    :param sessions: the outcome of ``nvcc --version`` in each.
    """
    lost = [name for name, (status, output, _errors) in sessions.items() if status != 0 or "release" not in output]
    return finding(
        "cuda.environment",
        "fail" if lost else "pass",
        f"{', '.join(lost)}: nvcc is not found" if lost else "nvcc is found in every kind of session",
        "look at /etc/environment and /etc/profile.d for what replaces PATH (docs/cuda.md)",
    )


def device(executed: Outcome | None, gpus: int) -> Finding:
    """Check that the test program computes on the GPUs.

    :param executed: its outcome, None if it was not compiled.
    """
    status, output, errors = executed or (1, "", "did not compile")
    return finding(
        "cuda.device",
        "skip" if gpus == 0 else "pass" if status == 0 else "fail",
        "no NVIDIA GPU here: compiled, not run"
        if gpus == 0
        else output + errors or f"device_query ended with {status} and no output",
        "look at `nvidia-smi`: the driver has to be loaded and match its libraries",
    )

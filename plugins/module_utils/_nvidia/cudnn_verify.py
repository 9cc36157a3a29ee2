# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use cuDNN as its users do, and return what was found."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cudnn_run import CudnnRequest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.trial import (
    Outcome,
    Run,
    shorten,
    sources,
)

VERSION, CONVOLUTION = "cudnn_version.c", "cudnn_convolution.c"


def findings(run: Run, request: CudnnRequest, plan: JsonObject) -> list[Finding]:
    """Compile a program for the version, and with GPUs one that convolves.

    :param request: ``programs`` has the texts of the programs by their names.
    """
    executed: Outcome | None = None
    convolved: Outcome | None = None
    with sources(request["programs"]) as directory:
        # Like a user's build: no option names the directories of headers and library.
        compiled = run(["cc", "-o", f"{directory}/version", f"{directory}/{VERSION}", "-lcudnn"])
        if compiled[0] == 0:
            executed = run([f"{directory}/version"])
        if plan["gpus"] > 0:
            line = f"nvcc -x cu -o {directory}/convolution {directory}/{CONVOLUTION} -lcudnn && {directory}/convolution"
            convolved = run(["bash", "-lc", line])
    return [version(compiled, executed), convolution(convolved), *plan["findings"]]


def version(compiled: Outcome, executed: Outcome | None) -> Finding:
    """Check that headers and library have the same version.

    :param executed: the outcome of the test program, None if it was not compiled.
    """
    status, output, errors = executed or (1, "", "")
    text = f"{output} {errors} {compiled[2]}".strip().replace("\n", ", ")
    return finding(
        "cudnn.version",
        "pass" if status == 0 and output.strip() else "fail",
        shorten(text, 400) or f"cc ended with {compiled[0]}, and the test program with {status}",
        "another cuDNN is in the way of headers or library: see `ldconfig -p | grep cudnn` and `cc -E -include cudnn_version.h`",
    )


def convolution(convolved: Outcome | None) -> Finding:
    """Check that the GPU convolves.

    :param convolved: the outcome of the test program, None without a GPU.
    """
    status, output, errors = convolved or (0, "", "no NVIDIA GPU here")
    return finding(
        "cudnn.convolution",
        "skip" if convolved is None else "pass" if status == 0 else "fail",
        shorten(f"{output} {errors}".strip(), 400) or f"the test program ended with {status} and no output",
        "look at the findings of the role cuda first",
    )

# SPDX-License-Identifier: GPL-3.0-or-later
"""The next step for an error of CUDA is the same, whichever role meets it."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import cuda_words
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.verdict import failure
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept.workers import Outcome
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke.findings import remedy
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke.request import Place

PLACE = Place("environment", "lab", "/usr/bin/python3")


@pytest.mark.parametrize(("sign", "step"), [(sign, row.text) for row in cuda_words._STEPS for sign in row.texts])
def test_both_proofs_say_the_same(sign: str, step: str) -> None:
    message = f"CUDA error: {sign.upper()}, and more"
    assert cuda_words.step(message) == step
    assert remedy(PLACE, {"reason": "training", "words": message, "driver": "CUDA_SUCCESS", "gpus": []}) == step
    found = failure(Outcome(4, [{"event": "failed", "step": None, "reason": "broke_off", "words": message}]), "python")
    assert found
    assert found[1] == step


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("CUDA_ERROR_MPS_CONNECTION_FAILED", "CUDA_MPS_PIPE_DIRECTORY"),
        ("CUDA_ERROR_MPS_SERVER_NOT_READY", "CUDA_MPS_PIPE_DIRECTORY"),
        ("CUDA_ERROR_UNKNOWN", "nvidia_uvm"),
        ("CUDA_ERROR_NO_DEVICE", "/dev/nvidia*"),
    ],
)
def test_an_error_of_the_driver_has_its_own_step(name: str, word: str) -> None:
    assert word in remedy(PLACE, {"reason": "no_gpu", "words": "", "driver": name, "gpus": []})


def test_other_errors_have_none() -> None:
    assert cuda_words.step_for("CUDA_ERROR_INVALID_VALUE") == ""
    assert cuda_words.step("CUDA error: an illegal memory access was encountered") == ""

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


@pytest.mark.parametrize(("sign", "step"), cuda_words._STEPS)
def test_both_proofs_say_the_same(sign: str, step: str) -> None:
    message = f"CUDA error: {sign.upper()}, and more"
    assert cuda_words.step(message) == step
    assert remedy(PLACE, {"reason": "training", "words": message, "driver": "CUDA_SUCCESS", "gpus": []}) == step
    found = failure(Outcome(4, [{"event": "failed", "step": None, "reason": "broke_off", "words": message}]), "python")
    assert found
    assert found[1] == step


def test_other_errors_have_none() -> None:
    assert cuda_words.step("CUDA error: an illegal memory access was encountered") == ""

# SPDX-License-Identifier: GPL-3.0-or-later
"""Several jobs on one card."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import cards, memory
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.together import together

from tests.unit.support.gpu_fit import job

LARGE = job(batch=8)
SMALL = job(torchvision="resnet18", batch=2, dtype="amp")


def test_two_large_jobs() -> None:
    assert together((LARGE, LARGE), cards.find("H200"))["fits"] == "yes"
    small = together((LARGE, LARGE), cards.find("RTX 3090"))
    assert small["fits"] == "no" and "one after the other" in small["advice"]


@pytest.mark.parametrize(
    ("pair", "slowdown"),
    [
        ((LARGE, LARGE), {"time_sliced": 2.2, "mps": 1.8}),
        ((SMALL, SMALL), {"time_sliced": 1.1, "mps": 1.0}),
        ((LARGE, SMALL), {"time_sliced": 1.9, "mps": 1.1}),
    ],
    ids=["full", "idle", "mixed"],
)
def test_the_cost_is_that_of_the_measured_pairs(pair: tuple, slowdown: dict[str, float]) -> None:
    assert together(pair, cards.find("H100"))["slowdown"] == slowdown


def test_needs_add_up_and_three_jobs_have_no_measured_cost() -> None:
    need = memory.estimate(LARGE)
    for available, fits in ((3 * need.high, "yes"), (3 * need.high - 1, "tight"), (3 * need.low - 1, "no")):
        found = together((LARGE,) * 3, cards.find("H100"), available)
        assert (found["fits"], found["slowdown"]) == (fits, None)

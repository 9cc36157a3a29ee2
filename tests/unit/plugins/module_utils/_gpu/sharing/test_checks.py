# SPDX-License-Identifier: GPL-3.0-or-later
"""Problems of a request for shared GPUs that need no card to be seen."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing.checks import problems

LIMIT = {"slice": "user-1001.slice", "device": "GPU-a", "hard": "20G"}
CARD: Any = {"device": "all", "mps": None}


def texts(gpus: list[Any], limits: list[Any]) -> list[str]:
    return [f"{row['variable']} {row['problem']}" for row in problems(gpus, limits)]


def test_usable_request_has_no_problem() -> None:
    assert problems([CARD, {"device": "0", "mps": [{"name": "vision", "user": "vision"}]}], [LIMIT]) == []


@pytest.mark.parametrize(
    ("gpus", "limits", "text"),
    [
        ([], [], "gpu_sharing_gpus is empty"),
        ([{**CARD, "mps": [{"name": "a"}, {"user": "b"}]}], [], "gpu_sharing_gpus has a daemon without a name"),
        (
            [{**CARD, "mps": [{"name": "a", "devices": ["0"]}]}],
            [],
            "gpu_sharing_gpus has a daemon with devices of its own",
        ),
        *(
            (
                [CARD],
                [LIMIT, {name: value for name, value in LIMIT.items() if name != key}],
                "gpu_sharing_limits has a limit without slice, device or hard",
            )
            for key in LIMIT
        ),
    ],
)
def test_problem_is_named(gpus: list[Any], limits: list[Any], text: str) -> None:
    assert texts(gpus, limits) == [text]


def test_all_problems_are_named_at_once() -> None:
    assert len(texts([{**CARD, "mps": [{"devices": []}]}], [{}])) == 3

# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests, GPUs, toolkits and builds that are known to fail."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_model import (
    build_failure,
    cards_of,
    toolkit_problem,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_plan import plan_driver
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.support.nvidia.driver_requests import CARDS, make_host


def test_an_unknown_part_of_a_request_is_an_error() -> None:
    with pytest.raises(ValueError, match="brnach is no part of a request"):
        plan_driver(make_host(), {"brnach": "580"})


@pytest.mark.parametrize(
    ("version", "driver", "generations", "fits"),
    [
        ("12.9", "525.60.13", ["Ada"], True),
        ("12.9", "525.60.11", ["Ada"], False),
        ("13.3", "580.65.06", ["Ada"], True),
        ("13.0", "580.65.06", ["Pascal"], False),
        ("12.9", "580.65.06", ["Pascal", "Ada"], True),
        ("11.8", "580.65.06", ["Hopper"], True),
        ("12.6", "580.65.06", ["Blackwell"], False),
        ("12.8", "580.65.06", ["Blackwell"], True),
    ],
)
def test_toolkit(version: str, driver: str, generations: list[str], fits: bool) -> None:
    assert (toolkit_problem(version, driver, generations) == "") is fits


@pytest.mark.parametrize(
    ("version", "kernel", "source", "distribution", "builds"),
    [
        ("550.163.01", "6.12.107", "archive", "Debian", False),
        ("550.163.01", "6.12.117", "archive", "Debian", False),
        ("550.163.01", "6.12.96", "archive", "Debian", True),
        ("550", "6.12.107", "archive", "Debian", False),
        ("580.105.08", "6.12.107", "cuda_repository", "Debian", False),
        ("580.126.09", "6.12.107", "cuda_repository", "Debian", True),
        # A whole branch is only said to fail when all of it does.
        ("580", "6.12.107", "cuda_repository", "Debian", True),
        ("580.105.08", "7.3.4", "cuda_repository", "Debian", False),
        ("590.44.01", "6.12.107", "cuda_repository", "Debian", False),
        ("590.48.01", "6.12.107", "cuda_repository", "Debian", True),
        ("535.309.01", "6.1.192", "archive", "Debian", True),
        ("535.309.01", "6.19", "archive", "Ubuntu", True),
    ],
)
def test_pairs_that_do_not_build(version: str, kernel: str, source: str, distribution: str, builds: bool) -> None:
    assert (build_failure(version, kernel, source, distribution) is None) is builds


@given(st.lists(st.sampled_from(sorted(CARDS.values())), min_size=1, max_size=4))
def test_more_cards_never_allow_more(devices: list[str]) -> None:
    alone = [cards_of([int(device, 16)]) for device in devices]
    together = cards_of([int(device, 16) for device in devices])
    assert together.highest_branch == min(cards.highest_branch for cards in alone)
    assert all(set(together.modules) <= set(cards.modules) for cards in alone)

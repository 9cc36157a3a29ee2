# SPDX-License-Identifier: GPL-3.0-or-later
"""The expected NVLinks of a card, and the allowed replays of its PCIe link."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import links
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import verdict as health

from tests.unit.support.gpu.cards import card


@pytest.mark.parametrize(
    ("generation", "lanes", "limit"),
    [(5, 16, 31), (4, 16, 16), (3, 16, 8), (4, 8, 8), (1, 1, 1), (9, 16, 62), (None, 16, 8), (4, None, 8)],
)
def test_replay_limit_follows_generation_and_lanes(generation: Any, lanes: Any, limit: int) -> None:
    # DCGM 4.6, GetExpectedPcieReplayRate.
    assert links.replay_limit(card(pcie__max_generation=generation, pcie__max_width=lanes)) == limit


@pytest.mark.parametrize(
    ("replays", "limit", "reported"), [(31, None, False), (32, None, True), (5, 6, False), (6, 6, True)]
)
def test_host_has_its_own_replay_limit(replays: int, limit: float | None, reported: bool) -> None:
    signs = card(since_last_check={"seconds": 60, "pcie_replays": replays})
    limits = health.Limits(pcie_replays_per_minute=limit)
    assert bool(health.judge(signs, [], {"limits": limits})["reasons"]) is reported


def linked(name: str, active: int, count: int = 12, **signs: Any) -> Any:
    return card(name=name, nvlink={"count": count, "active": active, "links": []}, **signs)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA A100-SXM4-80GB", 12),
        ("NVIDIA H100 80GB HBM3", 12),
        ("NVIDIA H200", 12),
        ("NVIDIA B200", 12),
        # With a bridge, or without.
        ("NVIDIA H200 NVL", None),
        ("NVIDIA A100 80GB PCIe", None),
        ("NVIDIA GH200 480GB", None),
    ],
)
def test_wired_board_expects_all_links(name: str, expected: int | None) -> None:
    down = linked(name, active=0)
    assert links.expected_links(down, [down, linked(name, active=0)]) == expected


@pytest.mark.parametrize("others", [[], [card(nvlink=None)]])
def test_wired_gpu_without_a_peer_expects_no_link(others: list[Any]) -> None:
    """On an adapter for a PCIe slot, or alone in a virtual machine, nothing is at the other end."""
    alone = linked("Tesla V100-SXM2-16GB", active=0, count=6)
    assert links.expected_links(alone, [alone, *others]) is None
    part = linked("Tesla V100-SXM2-16GB", active=4, count=6)
    assert links.expected_links(part, [part, *others]) == 6


def test_links_down_name_how_to_ignore_them() -> None:
    (row,) = links._nvlinks(card(expected_nvlinks=6, nvlink={"count": 6, "active": 0, "links": []}))
    assert "gpu_health_ignore" in row.next_step


def test_gpu_with_a_fabric_expects_all_links_without_mig() -> None:
    fabric = {"state": "completed", "status": "SUCCESS"}
    assert links.expected_links(linked("NVIDIA X", 0, fabric=fabric), []) == 12
    assert links.expected_links(linked("NVIDIA X", 0, fabric=fabric, modes__mig={"current": True}), []) is None


def test_bridge_expects_as_many_links_as_its_sisters() -> None:
    weak, whole, bare = (linked("NVIDIA RTX A6000", active, 4) for active in (2, 4, 0))
    other = linked("NVIDIA A100 80GB PCIe", 8)
    cards = [weak, whole, bare, other]
    assert [links.expected_links(sister, cards) for sister in cards] == [4, 4, None, 8]


def test_a_card_without_nvlink_expects_none() -> None:
    assert links.expected_links(card(nvlink=None), []) is None

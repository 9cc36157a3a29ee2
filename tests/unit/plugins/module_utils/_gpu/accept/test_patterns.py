# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory test, on a fake GPU whose memory is a list of words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import patterns

from tests.unit.support.gpu.lists_as_tensors import Torch, Words

FREE = 1 << 20


def fill(torch: Any, share: float = 0.5) -> dict[str, Any]:
    events: list[dict[str, Any]] = []
    gpu = SimpleNamespace(torch=torch, device="cuda", synchronize=torch.settle)
    patterns.fill_memory(gpu, share, lambda event, **facts: events.append({"event": event, **facts}))
    assert [row["pattern"] for row in events[:-1]] == list(patterns.PATTERNS)
    return events[-1]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "LEAST_BYTES", 1024)


def test_good_memory_has_no_wrong_word():
    result = fill(Torch(FREE))

    assert (result["wrong"], result["first"]) == (0, None)
    assert 0.45 < result["tested_bytes"] / result["free_bytes"] <= 0.5


def test_stuck_bit_is_found_with_its_place():
    def stick(pieces: list[Words]) -> None:
        pieces[3][7] |= 1 << 5

    result = fill(Torch(FREE, stick))

    assert result["first"]["bits"] == [5]
    assert result["first"]["offset"] == 8 * (3 * len(Torch.tensors[0]) + 7)
    assert result["first"]["pattern"] == "zeros"
    # Not with ones, nor with 0xaa, which have this bit.
    assert 2 <= result["wrong"] <= 4


def test_aliased_addresses_are_found():
    """Find the aliased addresses, although each constant is in both of them."""

    def alias(pieces: list[Words]) -> None:
        pieces[2][:] = pieces[1]

    result = fill(Torch(FREE, alias))

    assert result["first"]["pattern"] == "address"
    assert result["wrong"] == 2 * len(Torch.tensors[0])


def test_less_memory_than_free_is_reported():
    result = fill(Torch(FREE, room=FREE // 4))

    assert result["tested_bytes"] <= FREE // 4


def test_first_wrong_word_has_its_place_and_bits():
    expected = patterns.CONSTANTS["0xaa"]

    found = patterns.first_wrong("0xaa", 4096, 0x7F0000001000, expected, expected ^ 0b1001)

    assert found == {
        "pattern": "0xaa",
        "offset": 4096,
        "address": "0x7f0000001000",
        "expected": "0xaaaaaaaaaaaaaaaa",
        "found": "0xaaaaaaaaaaaaaaa3",
        "bits": [0, 3],
    }


@pytest.mark.parametrize("bit", [0, 62, 63])
def test_every_bit_is_found_including_the_sign(bit: int):
    found = patterns.first_wrong("ones", 0, 0, -1, patterns.signed((1 << 64) - 1 - (1 << bit)))

    assert found["bits"] == [bit]


def test_patterns_have_each_bit_as_0_and_1():
    assert patterns.CONSTANTS["zeros"] == ~patterns.CONSTANTS["ones"] == 0
    assert patterns.CONSTANTS["0x55"] == ~patterns.CONSTANTS["0xaa"]
    assert {"address", "random"} < set(patterns.PATTERNS)

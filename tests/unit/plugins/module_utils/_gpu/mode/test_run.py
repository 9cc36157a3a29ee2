# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of a user become one request a card."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.files import ByCard
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode.plan import Entry
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode.run import declare, requests_of
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError, Refusal

CARDS = (Card(object(), 0, "GPU-a", "0000:41:00.0", "H100"), Card(object(), 1, "GPU-b", "0000:42:00.0", "H100"))
BEFORE: ByCard = {"GPU-a": {"power_limit": "300 W", "persistence": True}, "GPU-b": {"time_slice": "long"}}
LOST = Card(None, 2, "", "0000:43:00.0", problem=NvmlError(15, "nvmlDeviceGetHandleByIndex"))


def requested(*rows: dict[str, Any], cards: Sequence[Card] = CARDS) -> dict[str, dict[str, Any]]:
    return {uuid: entry.wanted for uuid, entry in requests_of(rows, cards).items()}


def test_rows_name_cards_in_any_form() -> None:
    assert requested({"device": "42:00.0", "ecc": False, "power_limit": None}) == {"GPU-b": {"ecc": False}}
    assert requested({"device": "all", "ecc": True}) == {"GPU-a": {"ecc": True}, "GPU-b": {"ecc": True}}


def test_all_rows_without_a_card_are_reported() -> None:
    with pytest.raises(Refusal, match=r"`gpus\[0\].device`: no GPU is 'GPU-x'.*`gpus\[1\].device`: no GPU is '7'"):
        requested({"device": "GPU-x"}, {"device": "7"})


def test_lost_card_is_refused_only_where_requested() -> None:
    with pytest.raises(Refusal, match=r"`gpus\[0\].device`: GPU 2 at 0000:43:00.0 does not answer .*GPU_IS_LOST"):
        requested({"device": "all", "ecc": True}, cards=[*CARDS, LOST])
    # Who names the others can have them.
    assert requested({"device": "GPU-a", "ecc": True}, cards=[*CARDS, LOST]) == {"GPU-a": {"ecc": True}}


def test_one_card_by_two_names_is_refused() -> None:
    with pytest.raises(Refusal, match=r"`gpus\[0\]` and `gpus\[1\]` name one card, GPU-a"):
        requested({"device": "GPU-a"}, {"device": "0"})


def asks(**wanted: object) -> dict[str, Entry]:
    return {"GPU-a": Entry("gpus[0]", "GPU-a", wanted)}


def test_request_keeps_other_declared_settings() -> None:
    assert declare(BEFORE, asks(power_limit="80 %"), keep=True, exclusive=False) == {
        "GPU-a": {"power_limit": "80 %", "persistence": True}
    }


def test_persist_none_removes_the_declaration() -> None:
    assert declare(BEFORE, asks(power_limit="80 %", persistence=True), keep=False, exclusive=False) == {"GPU-a": {}}


def test_exclusive_list_removes_other_declarations() -> None:
    changes = declare(BEFORE, asks(persistence=True), keep=True, exclusive=True)
    assert (set(changes), changes["GPU-b"]) == ({"GPU-a", "GPU-b"}, None)


def test_default_values_are_not_declared() -> None:
    after = declare(BEFORE, asks(power_limit="default", persistence=True), keep=True, exclusive=False)
    assert after == {"GPU-a": {"persistence": True}}

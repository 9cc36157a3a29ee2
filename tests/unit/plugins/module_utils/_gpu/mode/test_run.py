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


def asked(*rows: dict[str, Any], cards: Sequence[Card] = CARDS) -> dict[str, dict[str, Any]]:
    return {uuid: entry.wanted for uuid, entry in requests_of(rows, cards).items()}


def test_rows_name_cards_in_any_way_and_only_what_is_stated_is_asked_for() -> None:
    assert asked({"device": "42:00.0", "ecc": False, "power_limit": None}) == {"GPU-b": {"ecc": False}}
    assert asked({"device": "all", "ecc": True}) == {"GPU-a": {"ecc": True}, "GPU-b": {"ecc": True}}


def test_every_row_that_names_nothing_is_told() -> None:
    with pytest.raises(Refusal, match=r"`gpus\[0\].device`: no GPU is 'GPU-x'.*`gpus\[1\].device`: no GPU is '7'"):
        asked({"device": "GPU-x"}, {"device": "7"})


def test_a_lost_card_is_no_reason_to_leave_all_others_half_done() -> None:
    with pytest.raises(Refusal, match=r"`gpus\[0\].device`: GPU 2 at 0000:43:00.0 does not answer .*GPU_IS_LOST"):
        asked({"device": "all", "ecc": True}, cards=[*CARDS, LOST])
    # Who names the others can have them.
    assert asked({"device": "GPU-a", "ecc": True}, cards=[*CARDS, LOST]) == {"GPU-a": {"ecc": True}}


def test_one_card_by_two_names_is_refused() -> None:
    with pytest.raises(Refusal, match=r"`gpus\[0\]` and `gpus\[1\]` name one card, GPU-a"):
        asked({"device": "GPU-a"}, {"device": "0"})


def asks(**wanted: object) -> dict[str, Entry]:
    return {"GPU-a": Entry("gpus[0]", "GPU-a", wanted)}


def test_a_request_replaces_what_it_states_and_keeps_the_rest() -> None:
    assert declare(BEFORE, asks(power_limit="80 %"), keep=True, exclusive=False) == {
        "GPU-a": {"power_limit": "80 %", "persistence": True}
    }


def test_what_is_not_to_be_kept_is_no_longer_declared() -> None:
    assert declare(BEFORE, asks(power_limit="80 %", persistence=True), keep=False, exclusive=False) == {"GPU-a": {}}


def test_a_list_that_is_the_whole_truth_leaves_no_other_card() -> None:
    changes = declare(BEFORE, asks(persistence=True), keep=True, exclusive=True)
    assert (set(changes), changes["GPU-b"]) == ({"GPU-a", "GPU-b"}, None)


def test_the_default_is_what_the_driver_begins_with_and_needs_no_boot() -> None:
    after = declare(BEFORE, asks(power_limit="default", persistence=True), keep=True, exclusive=False)
    assert after == {"GPU-a": {"persistence": True}}

# SPDX-License-Identifier: GPL-3.0-or-later
"""The cards of a fake host."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import host
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

from harness.fakes import nvml as fake_nvml


def test_one_card_of_each_model_with_its_memory(tmp_path: Path) -> None:
    with fake_nvml.fake(["H200", "H200", "RTX 4090"]):
        found = host.read_cards(str(tmp_path))
    assert [row.card.name for row in found] == ["H200 SXM 141 GB", "RTX 4090"]
    assert all(abs(row.memory_bytes / row.card.bytes - 1) < 0.05 for row in found)
    assert [row.baseline for row in found] == [None, None]


def test_two_cards_of_one_name_and_two_memories(tmp_path: Path) -> None:
    with fake_nvml.fake(["RTX 4090", "RTX 4090"]) as machine:
        machine.set(1, memory__total=2**34)
        found = host.read_cards(str(tmp_path))
    assert len({row.memory_bytes for row in found}) == 2


def test_a_host_without_a_gpu_is_refused(tmp_path: Path) -> None:
    with fake_nvml.fake([]), pytest.raises(Refusal, match="name cards of the table"):
        host.read_cards(str(tmp_path))

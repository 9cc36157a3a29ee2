# SPDX-License-Identifier: GPL-3.0-or-later
"""Error counters of a GPU, and the recovery action of its driver."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import counters
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.reader import Reader

from harness.fakes import nvml as fake_nvml


def read() -> Any:
    with Nvml() as nvml:
        reader = Reader(nvml, nvml.cards()[0])
        reader.load(counters.FIELDS)
        return counters.read(reader)


@pytest.mark.parametrize(
    ("number", "name"), [(0, "none"), (1, "reset"), (2, "reboot"), (4, "drain_and_reset"), (42, "unknown (42)")]
)
def test_recovery_action_has_a_name(number: int, name: str) -> None:
    with fake_nvml.fake(["H100"]) as machine:
        machine.set(0, recovery_action=number)
        assert read()["recovery_action"] == name


def test_remapped_rows_are_counts_and_two_flags() -> None:
    with fake_nvml.fake(["H100"]) as machine:
        machine.set(0, remapped__uncorrectable=3, remapped__pending=1)
        assert read()["remapped_rows"] == {
            "correctable": 0,
            "uncorrectable": 3,
            "pending": True,
            "failure": False,
            "banks": {"max": 2560, "high": 0, "partial": 0, "low": 0, "none": 0},
        }


def test_nvlink_5_has_counters_of_its_own() -> None:
    with fake_nvml.fake(["B200", "H200"]) as machine:
        machine.set(0, nvlink__integrity_errors=7, nvlink__effective_ber=0x30C)
        found = read()["nvlink_5"]
        assert (found["integrity_errors"], found["malformed_packets"], found["effective_ber"]) == (7, 0, 3e-12)
        machine.set(0, nvlink__effective_ber=0xFFF)
        assert read()["nvlink_5"]["effective_ber"] == 0
    with fake_nvml.fake(["H200"]):
        assert read()["nvlink_5"] is None


@pytest.mark.parametrize(("valid", "expected"), [(1, True), (0, False), (None, None), ("!TIMEOUT", None)])
def test_inforom_is_valid_invalid_or_unknown(valid: Any, expected: bool | None) -> None:
    with fake_nvml.fake(["H200"]) as machine:
        machine.set(0, inforom__valid=valid)
        assert read()["inforom_valid"] is expected


def test_a_card_before_ampere_retires_pages_and_remaps_no_rows() -> None:
    with fake_nvml.fake(["V100"]):
        found = read()
    assert found["retired_pages"] == {"single_bit": 0, "double_bit": 0, "pending": False}
    assert found["remapped_rows"] is None


@pytest.mark.parametrize("is_set", [0, 1])
def test_unrepairable_memory_is_read_where_the_driver_writes_it(is_set: int) -> None:
    """Read the flag itself: nvidia-ml-py 13.615 has a version in its place, and returns the bytes after it."""
    with fake_nvml.fake(["B200"]) as machine:
        machine.set(0, unrepairable=is_set)
        assert read()["unrepairable_memory"] is bool(is_set)


def test_ecc_errors_since_boot_and_over_the_cards_life() -> None:
    with fake_nvml.fake(["H100"]):
        assert read()["ecc_errors"] == {
            "volatile": {"corrected": 0, "uncorrected": 0},
            "aggregate": {"corrected": 0, "uncorrected": 0},
        }

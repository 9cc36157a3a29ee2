# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of one GPU: failed values are null and listed once, a lost GPU is not read again."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import reader as reading
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card, Nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.reader import Reader

from harness.fakes import nvml as fake_nvml


def test_without_nvml_every_value_is_none() -> None:
    reader = Reader(None, Card(None, 0))
    reader.load([82, 94])
    assert (reader.ask("nvmlDeviceGetPowerUsage"), reader.field(82), reader.fields([(164, 3)])) == (None, None, [None])
    assert (reader.problem, reader.unreadable) == (None, [])


def test_unsupported_value_is_no_error() -> None:
    with fake_nvml.fake(["RTX 4090"]), Nvml() as nvml:
        reader = Reader(nvml, nvml.cards()[0])
        assert reader.ask("nvmlDeviceGetSerial") is None
    assert reader.unreadable == []


def test_nothing_is_read_after_a_gpu_is_lost() -> None:
    with fake_nvml.fake(["H100"]) as machine, Nvml() as nvml:
        reader = Reader(nvml, nvml.cards()[0])
        machine.fail("nvmlDeviceGetPowerUsage", "GPU_IS_LOST")
        assert reader.ask("nvmlDeviceGetPowerUsage") is None
        # It would answer now.
        assert reader.ask("nvmlDeviceGetPowerUsage") is None
        assert Reader(nvml, nvml.cards()[0]).ask("nvmlDeviceGetPowerUsage")
    assert reader.problem is not None and reader.problem.name == "GPU_IS_LOST"
    assert reader.unreadable == []


def test_unknown_numbers_of_a_later_driver_keep_the_number() -> None:
    assert reading.named(1, {1: "one"}) == "one"
    assert reading.named(7, {1: "one"}) == "unknown (7)"
    assert reading.named(None, {1: "one"}) is None
    assert reading.bits(0b1101, {1: "one", 4: "four"}) == ["one", "four", "unknown (0x8)"]
    assert reading.bits(None, {}) is None


def test_null_stays_null_in_another_unit_and_as_a_flag() -> None:
    assert (reading.scaled(None, 1000), reading.flag(None), reading.first(None)) == (None, None, None)
    assert (reading.scaled(1500, 1000), reading.flag(0), reading.first([4, 5], 1)) == (1.5, False, 5)

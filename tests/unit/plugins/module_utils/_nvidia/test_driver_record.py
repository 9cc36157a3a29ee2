# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a change."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import (
    INSTALLED,
    RECORD,
    Record,
    Stuck,
)

from tests.unit.support.nvidia.machine import Machine, change, host


def test_the_record_is_read_as_it_was_written(machine: Machine) -> None:
    writer = host(machine)
    writer.record = Record(installed=["libcuda1"], change=dataclasses.replace(change(), boot="first", stage=INSTALLED))
    writer.save()
    again = host(machine).record
    assert json.dumps(dataclasses.asdict(again)) == json.dumps(dataclasses.asdict(writer.record))
    assert [again.is_unsettled(boot) for boot in ("first", "second")] == [False, True]


def test_packages_of_the_record_before_0_1_0_are_read(machine: Machine) -> None:
    machine.write(RECORD, '{"brought": ["libcuda1"]}')
    assert host(machine).record == Record(installed=["libcuda1"])


@pytest.mark.parametrize("text", ["{} {}", "[]", "null", '{"change": 3}', '{"nonsense": 1}'])
def test_a_damaged_record_is_named(machine: Machine, text: str) -> None:
    machine.write(RECORD, text)
    with pytest.raises(Stuck, match=f"^{RECORD}, .* is damaged"):
        host(machine)

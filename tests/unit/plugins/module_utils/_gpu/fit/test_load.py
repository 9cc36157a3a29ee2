# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seconds of a load, by what limits it."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.load import Load, Rates, Times, seconds

RATES = Rates(100.0, 50.0, 10.0, 1000.0, "sheet", 100.0)


@pytest.mark.parametrize(
    ("load", "times"),
    [
        (Load(tensor=2e14, beside=1e12, cycles=1e11, moved=1e12), Times(products=2.0, moving=1.0)),
        (Load(tensor=1e14, beside=3e12, cycles=1e11), Times(moving=3.0)),
        (Load(tensor=1e14, beside=1e12, cycles=4e11, moved=1e12), Times(moving=1.0, cycles=4.0)),
    ],
)
def test_the_longest_hides_the_others(load: Load, times: Times) -> None:
    assert seconds(load, RATES, "bf16") == times


def test_no_cores_are_no_limit() -> None:
    assert seconds(Load(beside=1e12, cycles=1e15), RATES._replace(cores=0.0), "bf16") == Times(moving=1.0)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Baselines on the disk."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import baseline
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

UUID = "GPU-8f2c1a90-5d3e-4b7a-9c61-2e0f4d7b8a15"
COPY = {"value": 4300.0, "unit": "gb_s", "clock_mhz": None, "power_w": 690, "temperature_c": None}
BASELINE: Any = {
    "uuid": UUID,
    "day": "2026-11-01",
    **dict.fromkeys(baseline.CIRCUMSTANCES),
    "tests": {"copy": COPY},
}


def test_written_baseline_is_read_again(tmp_path: Path):
    folder = tmp_path / "baselines"

    baseline.write(str(folder), BASELINE)

    assert baseline.read(str(folder), UUID) == BASELINE
    assert (folder / f"{UUID}.json").read_text() == baseline.text_of(BASELINE)


@pytest.mark.parametrize("uuid", [None, "GPU-another"])
def test_card_without_a_baseline_has_none(tmp_path: Path, uuid: str | None):
    baseline.write(str(tmp_path), BASELINE)

    assert baseline.read(str(tmp_path), uuid) is None
    assert baseline.text_of(None) == ""


def without(key: str) -> str:
    return json.dumps({name: value for name, value in BASELINE.items() if name != key})


def with_copy(value: Any) -> str:
    return json.dumps({**BASELINE, "tests": {"copy": value}})


@pytest.mark.parametrize(
    "text",
    [
        "{half",
        "[]",
        "[" * 100_000,
        json.dumps({**BASELINE, "uuid": "GPU-another"}),
        *map(without, ("tests", "day", "torch")),
        *map(
            with_copy,
            (
                None,
                {},
                {"value": 1.0},
                {**COPY, "value": None},
                {**COPY, "value": "1"},
                {**COPY, "value": 10**400},
                {**COPY, "power_w": math.nan},
            ),
        ),
    ],
    ids=range(14),
)
def test_damaged_baseline_is_refused(tmp_path: Path, text: str):
    (tmp_path / f"{UUID}.json").write_text(text)

    with pytest.raises(Refusal, match="is damaged"):
        baseline.read(str(tmp_path), UUID)

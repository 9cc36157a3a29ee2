# SPDX-License-Identifier: GPL-3.0-or-later
"""The window and the limits of a check."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import request
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.reason import Limits
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal


@pytest.mark.parametrize(
    ("window", "seconds"), [("boot", None), ("90s", 90), ("30m", 1800), ("24h", 86400), ("2d", 172800)]
)
def test_window_is_the_boot_or_a_duration(window: str, seconds: int | None) -> None:
    assert request.window_seconds(window) == seconds


@pytest.mark.parametrize("window", ["", "24", "h", "yesterday", "-1h", "1.5h"])
def test_invalid_window_is_refused(window: str) -> None:
    with pytest.raises(Refusal, match="`boot`, or a number with s, m, h or d"):
        request.window_seconds(window)


def test_default_limits_are_those_of_the_collection() -> None:
    assert request.limits_of(None) == request.limits_of({"remapped_rows": None}) == Limits()
    assert request.limits_of({"remapped_rows": 8}).remapped_rows == 8


@pytest.mark.parametrize(
    ("limits", "text"), [({"rows": 8}, "there are busy_percent"), ({"remapped_rows": 0}, "at 0 or below")]
)
def test_invalid_limit_is_refused(limits: dict[str, int], text: str) -> None:
    with pytest.raises(Refusal, match=text):
        request.limits_of(limits)

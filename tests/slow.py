# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that are marked slow, in all places alike."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest


def leave_out_slow(items: Iterable[pytest.Item]) -> None:
    """Skip the slow tests, each with its reason. `script/test --all`, which sets RIGWRIGHT_SLOW, has them all."""
    for item in items:
        slow = item.get_closest_marker("slow")
        if slow and not os.environ.get("RIGWRIGHT_SLOW"):
            item.add_marker(pytest.mark.skip(reason=f"script/test --all runs it: {slow.args[0]}"))

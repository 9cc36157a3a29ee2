# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes as people write them."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import sizes


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("512", 512),
        ("500G", 500 * 2**30),
        ("500GiB", 500 * 2**30),
        ("2TB", 2 * 10**12),
        ("5X", -1),
        ("-1", -1),
        ("1.5T", -1),
    ],
)
def test_sizes(text: str, count: int) -> None:
    assert sizes.parse_size(text) == count

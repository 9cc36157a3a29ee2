# SPDX-License-Identifier: GPL-3.0-or-later
"""Layouts that a card can have, for property tests."""

from __future__ import annotations

from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.layout import expand
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.search import fits
from hypothesis import strategies as st

from tests.unit.support.gpu.mig_cards import CARDS


@st.composite
def layouts(draw: st.DrawFn, model: str) -> list[dict[str, Any]]:
    """Draw a request that the card can meet: add entries while it fits."""
    profiles = CARDS[model]
    entries: list[dict[str, Any]] = []
    for name in draw(st.lists(st.sampled_from(sorted(profiles)), max_size=8)):
        entry: dict[str, Any] = {"profile": name}
        if draw(st.integers(0, 5)) == 0:
            entry["start"] = draw(st.sampled_from(profiles[name].starts))
        if profiles[name].slices > 1 and draw(st.booleans()):
            options: dict[int, list[list[int]]] = {2: [[1], [1, 1], []], 3: [[1, 1], [2, 1], [1, 1, 1]]}
            entry["compute_instances"] = draw(
                st.sampled_from(options.get(profiles[name].slices, [[1, 1, 1], [2, 2], [2, 1], []]))
            )
        if fits(profiles, expand([*entries, entry], profiles)):
            entries.append(entry)
    return entries

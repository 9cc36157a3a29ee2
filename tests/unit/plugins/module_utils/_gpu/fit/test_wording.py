# SPDX-License-Identifier: GPL-3.0-or-later
"""Values and names of other people in errors."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import wording


@pytest.mark.parametrize("name", ["rtx4090", "RTX_4090", "rtx-4090"])
def test_spelling_makes_no_difference(name: str) -> None:
    assert wording.nearest(name, ["RTX 4090", "L4"]) == "RTX 4090"


def test_a_value_is_short_whatever_it_is() -> None:
    assert wording.short("8") == "'8'"
    assert wording.short("\n" * 100).isprintable() and len(wording.short("\n" * 100)) == wording.MOST + 3
    assert wording.short(10**5000) == "a number of thousands of digits"


def test_a_name_changes_no_terminal() -> None:
    assert wording.name("a\x1b[31m\nb\ud800") == "a?[31m?b?"
    assert len(wording.name("x" * 1000)) == wording.MOST

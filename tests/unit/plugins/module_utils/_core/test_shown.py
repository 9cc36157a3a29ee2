# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of others changes no terminal."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import clip, shown
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize("bad", ["\x1b", "\n", "\x85", "\u2028", "\u202e", "\u200b", "\ud800", "\x7f"])
def test_what_changes_a_terminal_is_a_question_mark(bad: str) -> None:
    assert shown(f"a{bad}é") == "a?é"


def test_kept_characters_stay() -> None:
    assert shown("a\n\tb\r", keep="\n\t") == "a\n\tb?"


@given(st.text(), st.integers(0, 20))
def test_texts_are_bounded(text: str, most: int) -> None:
    assert len(clip(text, most)) <= most and len(shown(text, most)) <= most
    assert shown(text).isprintable()
    assert shown(text).encode().decode() == shown(text)

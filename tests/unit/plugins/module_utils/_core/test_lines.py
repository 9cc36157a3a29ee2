# SPDX-License-Identifier: GPL-3.0-or-later
"""Each line of a program's output is matched, or reported."""

from __future__ import annotations

import re

import pytest
from ansible.module_utils.common import warnings
from ansible_collections.rigwright.workstation.plugins.module_utils._core import lines
from hypothesis import given
from hypothesis import strategies as st

FORMS = {"pair": r"(?P<name>\w+)=(?P<value>\w*)", "name": r"(?P<name>\w+)"}


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(warnings, "warn", found.append)
    return found


def test_lines_of_a_known_form(warned: list[str]) -> None:
    found = lines.parse("prog", "a=1\n\nb\n  \n", FORMS)
    assert [(form, match["name"]) for form, match in found] == [("pair", "a"), ("name", "b")]
    assert warned == []


def test_other_lines_are_reported(warned: list[str]) -> None:
    assert lines.parse("prog", "a b\n\x1b[31mred\nc d\ne f\n", FORMS) == []
    assert warned == ["`prog` printed lines of a form that is not known here (4): a b; ?[31mred; c d"]


def test_secret_lines_are_counted_alone(warned: list[str]) -> None:
    lines.parse("prog", "ada:1:X:0123456789ABCDEF\n", FORMS, secret=True)
    assert warned == ["`prog` printed lines of a form that is not known here (1)"]


@given(st.text(st.sampled_from("a=b \n\t\x1b")))
def test_no_line_is_lost(text: str) -> None:
    parsed = lines.match_lines(text, FORMS)
    wanted = [line for line in text.splitlines() if line.strip()]
    assert sorted([*(match.string for _form, match in parsed.matched), *parsed.unmatched]) == sorted(wanted)
    assert all(re.fullmatch(FORMS[form], match.string) for form, match in parsed.matched)

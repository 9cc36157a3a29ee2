# SPDX-License-Identifier: GPL-3.0-or-later
"""xrdp's files: parsed as xrdp does, and changed without losing other options."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.ini import Options, merge, problem, sections

FIXTURES = Path(__file__).parents[3] / "fixtures/xrdp"
PACKAGED = sorted(FIXTURES.glob("*.ini"))


def test_the_first_section_counts_and_comments_begin_anywhere():
    text = "; [Globals]\n[globals]\nPort=1 ; here\n#port=2\nparam=-a\nparam = -b\n[Other]\nx=\n"
    assert sections(text) == {"globals": {"port": ["1"], "param": ["-a", "-b"]}, "other": {"x": [""]}}


@pytest.mark.parametrize("packaged", PACKAGED, ids=lambda path: path.stem)
def test_a_merge_changes_only_the_wanted_options(packaged):
    before = sections(packaged.read_text())

    text = merge(packaged.read_text(), {"Globals": {"port": "tcp://127.0.0.1:3389"}, "Xorg": {"param": ["a", "b"]}})

    after = sections(text)
    assert after["globals"].pop("port") == ["tcp://127.0.0.1:3389"]
    assert after["xorg"].pop("param") == ["a", "b"]
    before["globals"].pop("port", None)
    before["xorg"].pop("param", None)
    assert after == before


@pytest.mark.parametrize("packaged", PACKAGED, ids=lambda path: path.stem)
def test_comments_stay_and_a_second_merge_changes_nothing(packaged):
    wanted: dict[str, Options] = {"Globals": {"a": "1"}, "New": {"b": ["2", "3"]}}
    once = merge(packaged.read_text(), wanted)
    assert merge(once, wanted) == once
    comments = [line for line in packaged.read_text().splitlines() if line.startswith((";", "#"))]
    assert [line for line in once.splitlines() if line.startswith((";", "#"))] == comments


def test_a_repeated_option_is_replaced_at_its_first_line():
    assert merge("[A]\nx=1\ny=2\nX = 3\n\n[B]\nx=4\n", {"a": {"x": "5"}}) == "[A]\nx=5\ny=2\n\n[B]\nx=4\n"


def test_new_options_end_a_section_and_new_sections_the_file():
    assert merge("[A]\nx=1\n\n[B]\n", {"A": {"y": "2"}, "C": {"z": "3"}}) == "[A]\nx=1\ny=2\n\n[B]\n\n[C]\nz=3\n"


def test_a_commented_option_does_not_count():
    assert sections(merge("[A]\n#x=1\n;x=2\n", {"A": {"x": "3"}})) == {"a": {"x": ["3"]}}


def test_sections_go_whatever_their_case():
    assert merge("[A]\nx=1\n\n[VNC-any]\nip=ask\n\n[C]\ny=2\n", {}, ["vnc-any"]) == "[A]\nx=1\n\n[C]\ny=2\n"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("LANG", "de_DE.UTF-8", ""),
        ("A", "b = c", ""),
        ("A", "red # not blue", "has a # or ;"),
        ("A", "a;b", "has a # or ;"),
        ("A", "$HOME", "begins with $"),
        ("A", "b\n[Security]", "line break"),
        ("A", " b", "spaces around it"),
        ("A", "b" * 2100, "longer than xrdp reads"),
        ("A=B", "c", "is not a valid name"),
    ],
)
def test_values_that_xrdp_would_misread_are_refused(name, value, text):
    found = problem("SessionVariables", name, value)
    assert text in found if text else found == ""


def test_a_section_with_an_invalid_name_is_refused():
    assert "is not a valid name" in problem("A]\n[B", "x", "1")


@pytest.mark.parametrize("separator", ["\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028"])
def test_a_value_with_any_line_break_is_refused(separator: str) -> None:
    """Refuse what Python splits into two lines: the second merge would."""
    assert "line break" in problem("Globals", "certificate", f"/a{separator}security_layer=negotiate")
    assert "line break" in problem("Globals", "certificate", f"/a{separator}")

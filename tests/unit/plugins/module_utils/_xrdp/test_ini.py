# SPDX-License-Identifier: GPL-3.0-or-later
"""xrdp's files: read as xrdp reads them, and changed with all that a version has of its own kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.ini import Options, fault, merge, sections

FIXTURES = Path(__file__).parents[3] / "fixtures/xrdp"
PACKAGED = sorted(FIXTURES.glob("*.ini"))


def test_the_first_section_of_a_name_counts_in_any_case_and_a_comment_begins_anywhere():
    text = "; [Globals]\n[globals]\nPort=1 ; here\n#port=2\nparam=-a\nparam = -b\n[Other]\nx=\n"
    assert sections(text) == {"globals": {"port": ["1"], "param": ["-a", "-b"]}, "other": {"x": [""]}}


@pytest.mark.parametrize("packaged", PACKAGED, ids=lambda path: path.stem)
def test_a_merge_changes_what_is_asked_and_nothing_else(packaged):
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


def test_an_option_that_stands_twice_stands_once_and_where_it_first_stood():
    assert merge("[A]\nx=1\ny=2\nX = 3\n\n[B]\nx=4\n", {"a": {"x": "5"}}) == "[A]\nx=5\ny=2\n\n[B]\nx=4\n"


def test_a_new_option_comes_before_the_blank_lines_and_a_new_section_last():
    assert merge("[A]\nx=1\n\n[B]\n", {"A": {"y": "2"}, "C": {"z": "3"}}) == "[A]\nx=1\ny=2\n\n[B]\n\n[C]\nz=3\n"


def test_a_commented_option_is_not_taken_for_one():
    assert sections(merge("[A]\n#x=1\n;x=2\n", {"A": {"x": "3"}})) == {"a": {"x": ["3"]}}


def test_sections_go_whatever_their_case():
    assert merge("[A]\nx=1\n\n[VNC-any]\nip=ask\n\n[C]\ny=2\n", {}, ["vnc-any"]) == "[A]\nx=1\n\n[C]\ny=2\n"


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("LANG", "de_DE.UTF-8", ""),
        ("A", "b = c", ""),
        ("A", "red # not blue", "has a # or ;"),
        ("A", "a;b", "has a # or ;"),
        ("A", "$HOME", "begins with $"),
        ("A", "b\n[Security]", "line break"),
        ("A", " b", "spaces around it"),
        ("A", "b" * 2100, "longer than xrdp reads"),
        ("A=B", "c", "is no name"),
    ],
)
def test_what_xrdp_would_read_otherwise_is_told(name, value, problem):
    found = fault("SessionVariables", name, value)
    assert problem in found if problem else found == ""


def test_a_section_that_is_no_name_is_told():
    assert "is no name" in fault("A]\n[B", "x", "1")


@pytest.mark.parametrize("separator", ["\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028"])
def test_a_value_is_one_line_by_every_count(separator: str) -> None:
    """The second merge splits lines as Python does, and would make two of it."""
    assert "line break" in fault("Globals", "certificate", f"/a{separator}security_layer=negotiate")
    assert "line break" in fault("Globals", "certificate", f"/a{separator}")

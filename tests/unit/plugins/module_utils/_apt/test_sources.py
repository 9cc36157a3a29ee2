# SPDX-License-Identifier: GPL-3.0-or-later
"""Both formats of sources, read and written."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.sources import Entry, parse, render
from hypothesis import given
from hypothesis import strategies as st

LIST = "/etc/apt/sources.list"
OWN = "/etc/apt/sources.list.d/debian.sources"

names = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=8)
tuples = st.lists(names, min_size=1, max_size=3, unique=True).map(tuple)
options = st.dictionaries(st.sampled_from(["Signed-By", "Architectures", "By-Hash"]), names, max_size=2).map(
    lambda found: tuple(found.items())
)
entries = st.builds(
    Entry, st.sampled_from([("deb",), ("deb-src",), ("deb", "deb-src")]), tuples, tuples, tuples, options
)


def test_options_of_a_line_become_fields() -> None:
    line = "deb [ arch=amd64,i386 signed-by=/k.gpg by-hash=no ] http://x.example/debian bookworm main # why\n"

    assert parse(LIST, line)[0].entry == Entry(
        ("deb",), ("http://x.example/debian",), ("bookworm",), ("main",),
        (("Architectures", "amd64 i386"), ("Signed-By", "/k.gpg"), ("By-Hash", "no")),
    )  # fmt: skip


@pytest.mark.parametrize("line", ["", "# deb http://x.example y main", "debian http://x.example y main", "deb cdrom"])
def test_text_that_is_no_source_is_kept(line: str) -> None:
    assert [block.entry for block in parse(LIST, line + "\n")] == [None]


@given(st.lists(entries, min_size=1, max_size=4))
def test_rendered_sources_are_parsed_unchanged(some: list[Entry]) -> None:
    assert [block.entry for block in parse("x.sources", render(some)) if block.entry] == some


@given(st.text(), st.sampled_from([LIST, OWN]))
def test_the_blocks_of_any_text_are_the_text(text: str, path: str) -> None:
    assert "".join(block.text for block in parse(path, text)) == text

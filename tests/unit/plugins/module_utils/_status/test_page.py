# SPDX-License-Identifier: GPL-3.0-or-later
"""The page: it requests nothing, and every value is text in it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from ansible_collections.rigwright.workstation.plugins.module_utils._status import model, page
from ansible_collections.rigwright.workstation.plugins.module_utils._status.model import Row, Section, View
from hypothesis import given
from hypothesis import strategies as st

NOW = 1_764_076_800.0
TAGS = {
    "html",
    "head",
    "meta",
    "link",
    "title",
    "style",
    "body",
    "h1",
    "p",
    "main",
    "section",
    "h2",
    "table",
    "tr",
    "th",
    "td",
}
TAGS |= {"span", "svg", "rect"}


class Reader(HTMLParser):
    """Keeps the tags and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in ("meta", "link"):
            self.open.append(tag)
        for name, value in attrs:
            assert name not in ("src", "onload", "onclick") and not (name == "href" and value != "data:,"), (
                name,
                value,
            )

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def view(value: str, time: float = NOW) -> View:
    return View("ws1", NOW, (Section("GPUs", (Row(value, (value, "93%"), share=0.5),), time, 45),), refresh_s=15)


def test_values_are_text() -> None:
    text = page.page(view("<script>alert('1')</script>&\"\x1b\ud800"))
    assert "<script" not in text
    assert "&lt;script&gt;alert(&#x27;1&#x27;)&lt;/script&gt;&amp;&quot;??" in text


@given(st.text(max_size=40))
def test_page_has_its_own_tags_alone(value: str) -> None:
    row = Row(value, (value,), share=0.5, level=value)
    reader = Reader(page.page(View(value, NOW, (Section(value, (row,), NOW - 99, 45),))))
    assert reader.tags <= TAGS and reader.open == []


def test_page_loads_nothing_and_refreshes_itself() -> None:
    text = page.page(view("alice"))
    assert re.findall(r"(?:https?:)?//\w+", text) == []
    assert "default-src 'none'" in text and '<meta http-equiv="refresh" content="15">' in text
    assert "url(" not in text and "@import" not in text


def test_old_section_is_marked() -> None:
    assert "stale" not in page.page(view("alice"))
    assert '<span class="mark">stale 46 s</span>' in page.page(view("alice", NOW - 46))


def test_row_shows_its_level_and_own_age() -> None:
    rows = (Row("/", ("98%",), level=model.FAIL, share=7.0), Row("backup", ("old",), time=NOW - 100, limit_s=60))
    text = page.page(View("ws1", NOW, (Section("Machine", rows),), uptime_s=7200))
    assert '<tr class="fail"><th>/</th>' in text and 'width="100.0"' in text
    assert '<span class="mark">stale 100 s</span><span>old</span>' in text and "up 2 h" in text

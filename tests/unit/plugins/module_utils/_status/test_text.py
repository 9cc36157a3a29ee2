# SPDX-License-Identifier: GPL-3.0-or-later
"""Views as text: whatever the model says, the lines fit the screen and have the console's characters alone."""

from __future__ import annotations

import re
import time

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._status import model, text
from ansible_collections.rigwright.workstation.plugins.module_utils._status.model import Row, Section, View
from hypothesis import given
from hypothesis import strategies as st

from harness.sandbox.lab import ROOT
from tests.unit.support.status import example

NOW = 1_764_076_800.0
MACHINE = Section("Machine", (Row("CPU", ("12%", "load 3.10"), share=0.12, brief="load 3.10"),))


def gpus(count: int, time: float = NOW) -> Section:
    rows = []
    for index in range(count):
        rows.append(Row(f"{index} H200", ("93%", "18.0/140 GiB", "alice", "61 C"), share=0.13))
        rows.append(Row("  alice", ("18.0 GiB", "python", "ssh"), rank=model.USUAL))
        rows.append(Row("  bob", ("1.0 GiB", "python", "ssh"), rank=model.DETAIL))
    return Section("GPUs", tuple(rows), time, 45)


texts = st.text(max_size=60)
numbers = st.floats(allow_nan=False, min_value=-1e12, max_value=1e12)
rows = st.builds(
    Row,
    texts,
    st.lists(texts, max_size=6).map(tuple),
    st.none() | st.floats(-2, 2),
    st.sampled_from([model.OK, model.DIM, model.WARN, model.FAIL]),
    st.integers(0, 2),
    numbers,
    numbers,
    texts,
)
sections = st.builds(Section, texts, st.lists(rows, max_size=12).map(tuple), numbers, numbers)
views = st.builds(View, texts, numbers, st.lists(sections, max_size=4).map(tuple), numbers, st.integers(1, 60))


@given(views, st.integers(1, 200), st.integers(1, 70))
def test_every_view_fits_every_screen(view: View, columns: int, height: int) -> None:
    found = text.lines(view, columns, height)
    assert len(found) <= height
    for line in found:
        shown = "".join(piece for piece, _level in line)
        assert len(shown) <= columns
        assert set(shown) <= text.CHARACTERS


@given(views)
def test_line_at_login_is_short_and_plain(view: View) -> None:
    line = text.brief(view)
    assert len(line) <= 160
    assert re.fullmatch(r"[ -~]*", line)


@given(views)
def test_colours_are_the_only_control_sequences(view: View) -> None:
    for line in text.lines(view, 80, 24):
        assert "\x1b" not in re.sub(r"\x1b\[[0-9;]+m", "", text.coloured(line))


@pytest.mark.parametrize(("columns", "height"), [(53, 20), (80, 24), (160, 50)])
def test_gpus_and_machine_are_on_each_screen(columns: int, height: int) -> None:
    shown = "\n".join(text.plain(View("ws1", NOW, (gpus(8), MACHINE)), columns, height))
    for index in range(8):
        assert f"{index} H200" in shown
    assert "load 3.10" in shown and "alice" in shown and "18.0/140 GiB" in shown


def test_small_screen_leaves_out_details_first() -> None:
    view = View("ws1", NOW, (gpus(2),))
    assert "bob" in "\n".join(text.plain(view, 53, 20))
    small = text.plain(view, 53, 6)
    assert [line.split()[0] for line in small[2:]] == ["0", "alice", "1", "alice"]
    assert text.plain(view, 53, 3)[-1] == "2 more lines"


def test_problem_is_shown_before_all_others() -> None:
    bad = Section("Upkeep", (Row("tunnel", ("up",)), Row("backup", ("failed",), level=model.FAIL)))
    lines = text.plain(View("ws1", NOW, (gpus(8), MACHINE, bad)), 53, 8)
    assert len(lines) == 8 and lines[-1] == "7 more lines"
    assert "backup failed" in lines and not any("tunnel" in line for line in lines)


def test_narrow_screen_leaves_out_the_last_values() -> None:
    view = View("ws1", NOW, (gpus(1),))
    wide, narrow = ("\n".join(text.plain(view, columns, 20)) for columns in (80, 40))
    assert "61 C" in wide and "93%" in wide
    assert "61 C" not in narrow and "93%" in narrow


def test_wide_screen_has_two_columns() -> None:
    lines = text.plain(View("ws1", NOW, (gpus(1), MACHINE)), 160, 50)
    assert lines[1].startswith("GPUs ") and " \u2502 Machine " in lines[1]


def test_old_source_is_marked_with_its_age() -> None:
    fresh, old = (text.plain(View("ws1", NOW, (gpus(1, NOW - age),)), 80, 24) for age in (45, 46))
    assert "stale" not in fresh[1]
    assert fresh[1].startswith("GPUs ") and old[1].endswith(" stale 46 s")


def test_row_has_the_mark_of_its_own_source() -> None:
    row = Row("backup", ("3 d ago",), time=NOW - 3 * 86400, limit_s=36 * 3600)
    assert "stale 3 d  3 d ago" in text.plain(View("ws1", NOW, (Section("Upkeep", (row,)),)), 80, 24)[2]


def test_characters_that_the_console_lacks_are_question_marks() -> None:
    row = Row("\u4e16\u754c", ("\x1b[2J\u202e\U0001f600", "\u00e9"))
    shown = text.plain(View("ws1", NOW, (Section("GPUs", (row,)),)), 80, 24)[2]
    assert shown == "?? ?[2J??  \u00e9"


def test_line_at_login_counts_failures() -> None:
    bad = Section("Upkeep", (Row("tunnel", ("failed",), level=model.FAIL, brief="tunnel down"),))
    line = text.brief(View("ws1", NOW, (gpus(1, 0), MACHINE, bad)))
    assert re.fullmatch(
        r"ws1 \d\d:\d\d: GPUs stale \d+ y, load 3.10, tunnel down, 1 problem \(workstation-status\)", line
    )


def test_documentation_shows_what_the_program_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    page = (ROOT / "docs/status.md").read_text()
    assert "\n".join(text.plain(example(), 80, 24)) in page
    assert text.brief(example()) in page

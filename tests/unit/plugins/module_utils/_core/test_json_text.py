# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON of others: what no reader means is refused before it is used."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.json_text import DEPTH, number, parse
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting"),
        ('{"a": 1', "Expecting"),
        (b"\xff\xfe", "utf-8"),
        ('{"a": NaN}', "has NaN for a number"),
        ('{"a": -Infinity}', "has -Infinity for a number"),
        ('{"a": 1e999}', "has 1e999 for a number"),
        (f'{{"a": {"9" * 5000}}}', "a number of 5000 digits"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "a key twice"),
        ("[" * (DEPTH + 1) + "1" + "]" * (DEPTH + 1), "nested too deeply"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        (" " * 300_001, "larger than 300000 bytes"),
    ],
)
def test_what_no_reader_means_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(text, 300_000)


def test_depth_has_a_limit_of_its_own() -> None:
    assert parse("[" * DEPTH + "1" + "]" * DEPTH)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(), each, max_size=3),
    max_leaves=10,
)


@given(values)
def test_all_else_is_read_as_it_is(value: Any) -> None:
    assert parse(json.dumps(value)) == value
    assert parse(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize("value", [True, "1", None, float("nan"), float("inf"), 10**16, 10**400, [1]])
def test_what_counts_nothing_is_no_number(value: Any) -> None:
    assert number(value) is None


def test_number_has_a_least() -> None:
    assert (number(-1), number(-1, 0), number(0, 0), number(1.5)) == (-1.0, None, 0.0, 1.5)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of measurements: what is written can be read, a row a line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.bench import results
from harness.sandbox.lab import ROOT

MEASUREMENTS = sorted((ROOT / "docs/measurements").glob("*.json"))
MOST_LINES = 3000
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=60,
)


@given(VALUES)
def test_what_is_written_is_read_again(value):
    assert json.loads(results.text(value)) == value


def test_each_row_of_a_long_list_is_a_line(tmp_path):
    rows = [{"load": "G", "rates": [number / 7 for number in range(9)]}] * 3
    file = tmp_path / "found.json"
    results.write(file, {"card": {"name": "H100"}, "rows": rows, 70: None})
    row = json.dumps(rows[0])
    expected = [
        "{",
        ' "card": {"name": "H100"},',
        ' "rows": [',
        *[f"  {row},"] * 2,
        f"  {row}",
        " ],",
        ' "70": null',
        "}",
    ]
    assert file.read_text().splitlines() == expected
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("file", MEASUREMENTS, ids=lambda file: file.stem)
def test_measurements_are_as_the_benches_write_them(file):
    found = file.read_text()
    assert found == results.text(json.loads(found)) + "\n", f"python -m harness.bench.results {file.relative_to(ROOT)}"


def test_measurements_are_few_lines():
    assert 0 < sum(len(file.read_text().splitlines()) for file in MEASUREMENTS) <= MOST_LINES

# SPDX-License-Identifier: GPL-3.0-or-later
"""Records that are not whole."""

from __future__ import annotations

import pytest

from tests.unit.support.storage.dataset_cache_processes import tree

# Threads of pytest-xdist wait for messages, and hold no lock that a child could miss.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_record_that_is_not_whole_is_no_copy(place, images):
    record = place.get(images).path.parents[1] / "record.json"
    for text in (
        "",
        "{",
        record.read_text()[:-40],
        record.read_text().replace('"whole": true', '"whole": false'),
        "[]",
    ):
        record = place.get(images).path.parents[1] / "record.json"
        record.parent.chmod(0o700)
        record.chmod(0o600)
        record.write_text(text)
        assert place.run("get", "--offline", images).rc == 9
    assert tree(place.get(images).path) == tree(images)

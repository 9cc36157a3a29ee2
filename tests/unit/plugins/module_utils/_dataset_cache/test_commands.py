# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands `pin`, `unpin`, `release`, `evict` and `rm`."""

from __future__ import annotations

import shutil

import pytest

# Threads of pytest-xdist wait for messages, and hold no lock that a child could miss.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_pinned_dataset_stays_until_it_is_unpinned(place, four):
    a, b, _c, _d = four
    assert place.run("pin", a).rc == 0
    assert place.rows()[0]["state"] == "absent"
    for source in four:
        assert place.get(source).rc == 0
    assert place.cached() == {"a", "c", "d"}
    assert place.run("rm", a).rc == 8
    assert place.run("unpin", a).rc == 0
    assert place.run("unpin", a).rc == 9
    assert place.get(b).rc == 0
    assert place.cached() == {"b", "c", "d"}


def test_released_dataset_may_go(place, images):
    place.run("get", images)
    assert place.run("rm", images).rc == 8
    assert place.run("release", images).rc == 0
    assert place.run("rm", images).rc == 0


def test_dry_run_reports_the_actions_of_the_next_run(place, four):
    a, b, c, _d = four
    for source in (a, b, c):
        place.get(source)
    planned = place.run("evict", "--need", "500K", "--dry-run")
    assert place.cached() == {"a", "b", "c"}
    done = place.run("evict", "--need", "500K")
    assert done.out == planned.out.replace("would evict", "evicted")
    assert place.cached() == {"c"}


def test_dataset_can_be_named_as_status_names_it(place, images):
    place.get(images)
    name = place.rows()[0]["name"]
    shutil.rmtree(images)
    assert place.run("rm", name).rc == 0
    assert place.rows() == []

# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes first when there is no room, and what stays."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.unit.support.storage import dataset_cache_processes as processes
from tests.unit.support.storage.dataset_cache_processes import await_that

# Threads of pytest-xdist wait for messages, and hold no lock that a child could miss.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_least_recently_used_copy_is_evicted_first(place, four):
    a, b, c, d = four
    for source in (a, b, c, a, d):
        assert place.get(source).rc == 0
    assert place.cached() == {"a", "c", "d"}


def test_time_of_day_that_jumps_changes_no_order(place, four):
    a, b, c, d = four
    for source, offset in ((a, 0), (b, 1e8), (c, -1e8), (a, -2e8)):
        done = place.run("get", "--pid", processes.dead_soon(), source, inject=processes.clock_is(offset))
        assert done.rc == 0
    place.get(d)
    assert place.cached() == {"a", "c", "d"}


def test_dataset_that_a_command_uses_stays(place, four):
    a, b, c, d = four
    reader = place.read(a)
    for source in (b, c, d):
        assert place.get(source).rc == 0
    assert place.cached() == {"a", "c", "d"}
    assert place.run("rm", a).rc == 8
    row = next(row for row in place.rows() if row["source"] == str(a))
    assert row["in_use_by"] == [f"{reader.pid} (sleep)"]
    reader.kill()
    assert place.run("rm", a).rc == 0


def test_children_of_an_ended_command_keep_the_dataset(place, images):
    pid_file = place.top / "pid"
    done = place.run("run", images, "--", "sh", "-c", f"sleep 600 >/dev/null 2>&1 & echo $! > {pid_file}")
    assert done.rc == 0
    assert place.run("rm", images).rc == 8
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
    await_that(lambda: place.run("rm", images).rc == 0)


def test_dataset_larger_than_the_quota_evicts_nothing(place, four):
    a, b, _c, _d = four
    for source in (a, b):
        place.get(source)
    huge = place.source("huge", file=b"x" * 2_000_000)
    done = place.get(huge)
    assert done.rc == 5
    assert "quota" in done.err
    assert place.cached() == {"a", "b"}


def test_dataset_that_cannot_fit_evicts_nothing(place, four):
    a, b, _c, _d = four
    place.run("pin", a)
    for source in (a, b):
        place.get(source)
    assert place.get(place.source("large", file=b"x" * 800_000)).rc == 5
    assert place.cached() == {"a", "b"}


def test_copies_that_are_being_made_count(place, four):
    a, b, c, d = four
    held = [
        place.start("get", source, inject=processes.at_read(source / "file", lambda: time.sleep(600)))
        for source in (a, b, c)
    ]
    await_that(lambda: len(place.rows("making")) == 3)
    assert place.get(d).rc == 5
    for process in held:
        process.kill()
    assert {row["state"] for row in place.rows()} == {"interrupted"}
    assert place.get(d).rc == 0
    assert place.cached() == {"d"}

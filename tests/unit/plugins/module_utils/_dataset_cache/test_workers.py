# SPDX-License-Identifier: GPL-3.0-or-later
"""Signals while threads copy."""

from __future__ import annotations

import signal

import pytest

from tests.unit.support.storage import dataset_cache_processes as processes
from tests.unit.support.storage.dataset_cache_processes import await_that

# Threads of pytest-xdist wait for messages, and hold no lock that a child could miss.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_removes_an_unfinished_copy(place, images, number, tmp_path):
    # It ends when those who read for it have come to an end: they go on once the signal is on its way.
    go = tmp_path / "go"
    maker = place.start("get", images, inject=processes.at_read(images / "one", lambda: await_that(go.exists, 600)))
    await_that(lambda: place.rows("making"))
    maker.send(number)
    go.touch()
    assert maker.wait().rc == 128 + number
    assert place.leftovers() == []
    assert place.rows() == []

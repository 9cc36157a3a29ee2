# SPDX-License-Identifier: GPL-3.0-or-later
"""The bar on a terminal."""

from __future__ import annotations

import sys
import time

import pytest

from tests.unit.support.storage import dataset_cache_processes as processes
from tests.unit.support.storage.dataset_cache_processes import MIB

# Threads of pytest-xdist wait for messages, and hold no lock that a child could miss.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_progress_is_a_bar_on_a_terminal_and_nothing_when_quiet(place):
    source = place.source("large", file=b"x" * MIB)

    def terminal() -> None:
        sys.stderr.isatty = lambda: True  # type: ignore[method-assign]
        processes.at_read(source / "file", lambda: time.sleep(0.4))()

    assert "\rESC[Kcopying large".replace("ESC", "\x1b") in place.run("get", source, inject=terminal).err
    place.clear()
    assert place.run("get", "--quiet", source, inject=terminal).err == ""

# SPDX-License-Identifier: GPL-3.0-or-later
"""A cache that cannot be opened."""

from __future__ import annotations

import pytest

# Threads of pytest-xdist wait for messages, and hold no lock that a child could miss.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_group_that_is_not_there_is_named(place, images):
    place.configure(group="no-such-group")
    assert place.get(images).rc == 2

# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `verify`."""

from __future__ import annotations

import pytest

from tests.unit.support.storage.dataset_cache_processes import rewrite, tree

# Threads of pytest-xdist wait for messages, and hold no lock that a child could miss.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_verify_finds_a_changed_byte_for_good(place, images):
    copy = place.get(images).path
    assert place.run("verify").rc == 0
    (copy / "two").chmod(0o600)
    rewrite(copy / "two")
    (copy / "two").chmod(0o440)
    done = place.run("verify", images)
    assert done.rc == 7
    assert "two is not what was copied" in done.err
    assert place.rows()[0]["state"] == "damaged"
    assert place.run("get", "--offline", images).rc == 9
    assert tree(place.get(images).path) == tree(images)
    assert place.run("verify").rc == 0


def test_verify_with_the_source_finds_changes_that_times_hide(place, images):
    place.get(images)
    rewrite(images / "two")
    assert place.run("verify", images).rc == 0
    assert place.run("verify", "--source", images).rc == 7
    assert (place.get(images).path / "two").read_bytes() == (images / "two").read_bytes()

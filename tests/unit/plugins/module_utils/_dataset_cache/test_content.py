# SPDX-License-Identifier: GPL-3.0-or-later
"""Holes and hard links of a source."""

from __future__ import annotations

import hashlib
import os

import pytest

from tests.unit.support.storage.dataset_cache_processes import MIB

# Threads of pytest-xdist wait for messages, and hold no lock that a child could miss.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_holes_stay_holes_and_hard_links_one_file(place):
    source = place.source("sparse", data=b"x" * MIB)
    with (source / "holes").open("wb") as file:
        file.seek(64 * MIB)
        file.write(b"end")
        file.truncate(200 * MIB)
    os.link(source / "data", source / "same")
    copy = place.get(source).path
    assert (
        hashlib.sha256((copy / "holes").read_bytes()).digest()
        == hashlib.sha256((source / "holes").read_bytes()).digest()
    )
    assert (copy / "holes").stat().st_blocks * 512 < 8 * MIB
    assert (copy / "data").samefile(copy / "same")
    assert place.rows()[0]["size"] < 8 * MIB

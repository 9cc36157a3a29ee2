# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `status`."""

from __future__ import annotations

import shutil
import time

import pytest

# Threads of pytest-xdist wait for messages, and hold no lock that a child could miss.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_status_lists_copies(place, images):
    copy = place.get(images).path
    (row,) = place.rows()
    assert {key: row[key] for key in ("source", "path", "state", "pinned", "in_use_by", "files")} == {
        "source": str(images),
        "path": str(copy),
        "state": "whole",
        "pinned": False,
        "in_use_by": [],
        "files": 3,
    }
    assert abs(row["last_used"] - time.time()) < 60
    assert row["size"] == place.status()["used"]
    (images / "one").write_bytes(b"new")
    assert "stale" in place.run("status", "--check").out
    shutil.rmtree(images)
    assert "sourceless" in place.run("status", "--check").out
    assert place.run("status", place.data / "nothing").rc == 9

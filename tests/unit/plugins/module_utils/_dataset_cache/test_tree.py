# SPDX-License-Identifier: GPL-3.0-or-later
"""Trees are copied as they are, odd names and links included."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.support.storage.dataset_cache_processes import tree

# Threads of pytest-xdist wait for messages, and hold no lock that a child could miss.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_unusual_files_are_copied_unchanged(place):
    odd = place.source("odd", plain=b"x")
    for name in (b"new\nline", b"not \xff\xfe UTF-8", b"-rf", b"record.json", b"\x1b[2J"):
        Path(os.fsdecode(os.fsencode(odd) + b"/" + name)).write_bytes(name)
    (odd / "deep/er/empty").mkdir(parents=True)
    (odd / "deep/link").symlink_to("../plain")
    (odd / "deep/dangling").symlink_to("nothing")
    (odd / "loop").symlink_to("loop")
    (odd / "tool").write_bytes(b"#!/bin/sh\n")
    (odd / "tool").chmod(0o755)
    assert tree(place.get(odd).path) == tree(odd)

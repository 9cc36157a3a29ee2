# SPDX-License-Identifier: GPL-3.0-or-later
"""A cache with sources."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.support.storage import dataset_cache_processes as processes
from tests.unit.support.storage.dataset_cache_processes import Place


@pytest.fixture
def place() -> Iterator[Place]:
    yield from processes.place()


@pytest.fixture
def images(place: Place) -> Path:
    return place.source("images", one=b"1" * 300_000, two=os.urandom(200_000), empty=b"")


@pytest.fixture
def four(place: Place) -> list[Path]:
    """Create four datasets, of which three fit."""
    place.configure(quota="1M")
    return [place.source(name, file=os.urandom(300_000)) for name in "abcd"]

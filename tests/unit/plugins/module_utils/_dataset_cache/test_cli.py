# SPDX-License-Identifier: GPL-3.0-or-later
"""The program as it is installed."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from tests.unit.support.storage.dataset_cache_processes import PROGRAM

# Threads of pytest-xdist wait for messages, and hold no lock that a child could miss.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_program_runs_as_it_is_installed(place, images):
    """Run it by an interpreter that ignores the user's environment, as the role's shebang does."""
    command = [sys.executable, "-I", PROGRAM, "--config", place.top / "configuration.json"]
    done = subprocess.run([*command, "run", images, "--", "sha256sum", "{}/one"], capture_output=True, check=True)
    assert done.stdout.split()[0].decode() == hashlib.sha256((images / "one").read_bytes()).hexdigest()

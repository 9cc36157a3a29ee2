"""Find the unit tests that start ansible-playbook: `script/test` runs them in a stage of their own."""

from __future__ import annotations

import re
from pathlib import Path

# The fixtures of tests/unit/conftest.py that start it.
FIXTURES = re.compile(r"\b(?:run_tasks|run_plays|plays_command)\b")


def has_plays(test: Path) -> bool:
    """Return whether a file of tests asks for one of them."""
    return FIXTURES.search(test.read_text()) is not None

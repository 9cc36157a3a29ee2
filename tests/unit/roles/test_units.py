# SPDX-License-Identifier: GPL-3.0-or-later
"""Units that start Python as root."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[3]
STARTS = {
    (str(file.relative_to(CHECKOUT)), line)
    for folder in ("roles", "plugins/module_utils")
    for file in (CHECKOUT / folder).rglob("*.*")
    if file.suffix in (".py", ".j2")
    for line in re.findall(r"^Exec\w+=.*python.*$", file.read_text(), re.MULTILINE)
}


@pytest.mark.parametrize(("file", "line"), sorted(STARTS))
def test_python_starts_isolated(file: str, line: str) -> None:
    assert re.search(r"python3?}? -I ", line), file

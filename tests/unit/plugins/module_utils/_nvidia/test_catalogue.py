# SPDX-License-Identifier: GPL-3.0-or-later
"""The data of GPUs and drivers: consistent in itself, sourced line by line, and what the page in docs/ shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import package_catalogue as package_data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.gpus import find_chip
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import branch_of, version_key

from tests.unit.support.nvidia import catalogue_page

CHECKOUT = Path(__file__).parents[5]


def tables() -> Iterator[tuple[str, Any]]:
    """Yield every row of every table, with the name of its table."""
    for name, table in vars(data).items():
        if name.isupper() and isinstance(table, tuple) and table and hasattr(table[0], "_fields"):
            yield from ((name, row) for row in table)


def test_later_cards_are_known_and_later_than_their_chip() -> None:
    for release, devices in data.LATER_CARDS.items():
        for device in devices:
            assert version_key(release) > version_key(find_chip(device).lowest_driver)


def test_ranges_are_sorted_and_apart() -> None:
    assert all(row.first <= row.last for row in data.PCI_RANGES)
    assert all(before.last < after.first for before, after in pairwise(data.PCI_RANGES))


def test_names_that_tables_share_exist() -> None:
    generations = [row.name for row in data.GENERATIONS]
    assert {row.chip for row in data.PCI_RANGES} == {row.name for row in data.CHIPS}
    assert {row.generation for row in data.CHIPS} == set(generations)
    assert {row.lowest_generation for row in data.BRANCHES} <= set(generations)
    assert set(data.PREFERRED_BRANCHES) == {row.number for row in data.BRANCHES}
    assert {branch for archive in package_data.ARCHIVES for branch in archive.branches} <= set(data.PREFERRED_BRANCHES)


def test_a_branch_and_a_generation_agree_on_where_support_ends() -> None:
    order = [row.name for row in data.GENERATIONS]
    for branch in data.BRANCHES:
        for generation in data.GENERATIONS:
            served = order.index(generation.name) >= order.index(branch.lowest_generation)
            assert served == (branch.number <= (generation.highest_branch or 10000)), (branch.number, generation.name)


def test_open_modules_from_turing_and_closed_until_hopper() -> None:
    modules = {row.name: row.modules for row in data.GENERATIONS}
    assert [name for name, found in modules.items() if data.OPEN in found] == [
        "Turing",
        "Ampere",
        "Ada",
        "Hopper",
        "Blackwell",
    ]
    assert [name for name, found in modules.items() if data.CLOSED not in found] == ["Blackwell"]


def test_branch_has_the_cuda_of_its_newest_full_toolkit() -> None:
    for branch in data.BRANCHES:
        served = [
            row.version for row in data.TOOLKITS if version_key(row.driver) <= version_key(f"{branch.number}.9999")
        ]
        assert branch.highest_cuda == served[-1]


def test_every_row_names_its_source() -> None:
    without = [(name, row[0]) for name, row in tables() if hasattr(row, "source") and not re.search(r"\w", row.source)]
    evidence = [(name, row[0]) for name, row in tables() if hasattr(row, "evidence") and not row.evidence]
    assert without + evidence == []
    # The ranges share one source; every other table has a column for it.
    assert {name for name, row in tables() if not {"source", "evidence"} & set(row._fields)} == {"PCI_RANGES"}


def test_versions_that_are_compared_are_versions() -> None:
    compared = [row.driver for row in data.TOOLKITS] + [row.minimum for row in data.TOOLKITS]
    compared += [row.lowest_driver for row in data.CHIPS if row.lowest_driver]
    assert all(branch_of(version) or version.isdigit() for version in compared)


def test_page_shows_the_data() -> None:
    """Make it again with ``.venv/bin/python -m tests.unit.support.nvidia.catalogue_page``."""
    assert (CHECKOUT / "docs/gpu_data.md").read_text() == catalogue_page.render()

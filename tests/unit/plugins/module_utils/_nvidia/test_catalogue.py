# SPDX-License-Identifier: GPL-3.0-or-later
"""The data of GPUs and drivers: consistent in itself, sourced line by line, and what the page in docs/ shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.facts import (
    branch_of,
    find_chip,
    has_mig,
    is_driver_package,
    lowest_driver,
    version_key,
)

from tests.unit.support.nvidia import catalogue_page

CHECKOUT = Path(__file__).parents[5]


def tables() -> Iterator[tuple[str, Any]]:
    """Every row of every table, with the name of its table."""
    for name, table in vars(data).items():
        if name.isupper() and isinstance(table, tuple) and table and hasattr(table[0], "_fields"):
            yield from ((name, row) for row in table)


# Names as the card's box has them; the ids are those of pci.ids. The ids lie far from where the generation's others are,
# or the name points to another generation.
CARDS = [
    (0x10C3, "GeForce 8400 GS Rev. 3", "Tesla or older"),
    (0x1080, "GeForce GTX 580", "Fermi"),
    (0x1140, "GeForce GT 720M", "Fermi"),
    (0x1004, "GeForce GTX 780", "Kepler"),
    (0x102D, "Tesla K80", "Kepler"),
    (0x1287, "GeForce GT 730", "Kepler"),
    (0x1380, "GeForce GTX 750 Ti", "Maxwell"),
    (0x17C8, "GeForce GTX 980 Ti", "Maxwell"),
    (0x174D, "GeForce MX130", "Maxwell"),
    (0x15F8, "Tesla P100 PCIe 16GB", "Pascal"),
    (0x1B06, "GeForce GTX 1080 Ti", "Pascal"),
    (0x1C94, "GeForce MX350", "Pascal"),
    (0x1D01, "GeForce GT 1030", "Pascal"),
    (0x1D81, "TITAN V", "Volta"),
    (0x1DB6, "Tesla V100 PCIe 32GB", "Volta"),
    (0x1E02, "TITAN RTX", "Turing"),
    (0x1EB8, "Tesla T4", "Turing"),
    (0x2182, "GeForce GTX 1660 Ti", "Turing"),
    (0x1F97, "GeForce MX450", "Turing"),
    (0x20B5, "A100 PCIe 80GB", "Ampere"),
    (0x2204, "GeForce RTX 3090", "Ampere"),
    (0x2236, "A10", "Ampere"),
    (0x25AD, "GeForce RTX 2050", "Ampere"),
    (0x2684, "GeForce RTX 4090", "Ada"),
    (0x26B9, "L40S", "Ada"),
    (0x2822, "GeForce RTX 3050 A Laptop", "Ada"),
    (0x2331, "H100 PCIe", "Hopper"),
    (0x2335, "H200 SXM", "Hopper"),
    (0x2342, "GH200", "Hopper"),
    (0x2901, "B200", "Blackwell"),
    (0x2B85, "GeForce RTX 5090", "Blackwell"),
    (0x2F04, "GeForce RTX 5070", "Blackwell"),
    (0x2D83, "GeForce RTX 5050", "Blackwell"),
    (0x2E12, "GB10", "Blackwell"),
    (0x3182, "B300", "Blackwell"),
]


@pytest.mark.parametrize(("device", "name", "generation"), CARDS, ids=[name for _id, name, _generation in CARDS])
def test_generation_of_a_card(device: int, name: str, generation: str) -> None:
    assert find_chip(device).generation == generation


@pytest.mark.parametrize("device", [0x3000, 0x3340, 0xFFFF, 0x2A00], ids=hex)
def test_an_unknown_card_counts_as_new(device: int) -> None:
    chip = find_chip(device)
    assert chip is data.UNKNOWN_CHIP
    assert chip.generation == data.GENERATIONS[-1].name


@pytest.mark.parametrize(
    ("device", "mig"),
    [
        pytest.param(0x20B0, True, id="A100"),
        pytest.param(0x20C2, False, id="CMP 170HX"),
        pytest.param(0x2204, False, id="RTX 3090"),
        pytest.param(0x2330, True, id="H100"),
        pytest.param(0x2BB1, True, id="RTX PRO 6000"),
        pytest.param(0x2B85, False, id="RTX 5090"),
        pytest.param(0x3000, False, id="unknown"),
    ],
)
def test_mig(device: int, mig: bool) -> None:
    assert has_mig(device) is mig


@pytest.mark.parametrize(
    ("device", "release"),
    [
        pytest.param(0x2D04, "570.148.08", id="RTX 5060 Ti"),
        pytest.param(0x2DB9, "570.158.01", id="RTX PRO 500 Laptop"),
        pytest.param(0x2B8C, "580.76.05", id="RTX 5090 D V2"),
        pytest.param(0x2BB2, "580.95.05", id="RTX PRO 6000D"),
        pytest.param(0x2BB9, "580.82.07", id="RTX 6000D"),
        pytest.param(0x2C3A, "580.142", id="RTX PRO 4500 Server"),
        pytest.param(0x2E12, "580.119.02", id="GB10"),
        pytest.param(0x2B85, "570.86.16", id="RTX 5090"),
        pytest.param(0x3000, "", id="unknown"),
    ],
)
def test_first_driver_of_a_card(device: int, release: str) -> None:
    assert lowest_driver(device) == release


def test_later_cards_are_known_and_later_than_their_chip() -> None:
    for release, devices in data.LATER_CARDS.items():
        for device in devices:
            assert version_key(release) > version_key(find_chip(device).lowest_driver)


def test_ranges_are_sorted_and_apart() -> None:
    assert all(row.first <= row.last for row in data.PCI_RANGES)
    assert all(before.last < after.first for before, after in pairwise(data.PCI_RANGES))


def test_names_that_one_table_takes_from_another_are_there() -> None:
    generations = [row.name for row in data.GENERATIONS]
    assert {row.chip for row in data.PCI_RANGES} == {row.name for row in data.CHIPS}
    assert {row.generation for row in data.CHIPS} == set(generations)
    assert {row.lowest_generation for row in data.BRANCHES} <= set(generations)
    assert set(data.PREFERRED_BRANCHES) == {row.number for row in data.BRANCHES}
    assert {branch for archive in data.ARCHIVES for branch in archive.branches} <= set(data.PREFERRED_BRANCHES)


def test_every_supported_system_has_both_sources() -> None:
    rows = yaml.safe_load((CHECKOUT / "roles/common/vars/platforms.yml").read_text())["__common_platforms"]
    supported = {(row["distribution"], row["version"]) for row in rows}
    assert {(row.distribution, row.version) for row in data.ARCHIVES} == supported
    assert {(row.distribution, row.version) for row in data.CUDA_REPOSITORIES} == supported


def test_keyring_packages_are_known_by_their_whole_checksum() -> None:
    for row in data.CUDA_REPOSITORIES:
        assert {"x86_64"} <= row.keyring_sha256.keys() <= set(row.architectures.values())
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in row.keyring_sha256.values())


def test_no_system_whose_apt_refuses_a_key_gets_it() -> None:
    with_sqv = [
        row
        for row in data.CUDA_REPOSITORIES
        if (row.distribution, row.version) in {("Debian", "13"), ("Ubuntu", "26.04")}
    ]
    assert len(with_sqv) == 2
    assert not data.REFUSED_KEYS.intersection(row.key for row in with_sqv)


def test_a_branch_and_a_generation_agree_on_where_support_ends() -> None:
    order = [row.name for row in data.GENERATIONS]
    for branch in data.BRANCHES:
        for generation in data.GENERATIONS:
            served = order.index(generation.name) >= order.index(branch.lowest_generation)
            assert served == (branch.number <= (generation.highest_branch or 10000)), (branch.number, generation.name)


def test_open_modules_begin_with_turing_and_closed_ones_end_before_blackwell() -> None:
    modules = {row.name: row.modules for row in data.GENERATIONS}
    assert [name for name, found in modules.items() if data.OPEN in found] == [
        "Turing",
        "Ampere",
        "Ada",
        "Hopper",
        "Blackwell",
    ]
    assert [name for name, found in modules.items() if data.CLOSED not in found] == ["Blackwell"]


def test_a_branch_has_the_cuda_of_the_newest_toolkit_it_fully_serves() -> None:
    for branch in data.BRANCHES:
        served = [
            row.version for row in data.TOOLKITS if version_key(row.driver) <= version_key(f"{branch.number}.9999")
        ]
        assert branch.highest_cuda == served[-1]


def test_every_source_scope_and_flavour_of_a_system_has_packages() -> None:
    for source in (data.ARCHIVE, data.CUDA_REPOSITORY):
        for distribution in ("Debian", "Ubuntu"):
            found = {
                (row.scope, row.modules)
                for row in data.PACKAGE_SETS
                if (row.source, row.distribution) == (source, distribution)
            }
            assert len(found) == 4


@pytest.mark.parametrize(
    "name", ["nvidia-driver", "libnvidia-compute-580", "linux-modules-nvidia-580-open-generic", "cuda-drivers-580"]
)
def test_package_of_a_driver(name: str) -> None:
    assert is_driver_package(name)


@pytest.mark.parametrize(
    "name",
    [
        "nvidia-container-toolkit",
        "libnvidia-container1",
        "nvidia-cuda-toolkit",
        "nvidia-driver-pinning-580",
        "cuda-compat-13-0",
        "libxnvctrl0",
    ],
)
def test_package_that_outlives_a_driver(name: str) -> None:
    assert not is_driver_package(name)


def test_every_planned_package_is_one_of_a_driver() -> None:
    planned = {name for row in data.PACKAGE_SETS for name in (*row.packages, *row.dkms, *row.prebuilt)}
    assert [
        name for name in planned if not is_driver_package(name.format(branch=580, server="", kernel="generic"))
    ] == []


def test_every_row_says_where_it_comes_from() -> None:
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
    """Make it anew with ``.venv/bin/python -m tests.unit.support.nvidia.catalogue_page``."""
    assert (CHECKOUT / "docs/gpu_data.md").read_text() == catalogue_page.render()

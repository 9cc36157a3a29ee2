# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs by their PCI ids."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.gpus import (
    find_chip,
    has_mig,
    has_nvswitch,
    lowest_driver,
    read_gpus,
)

from tests.unit.support.nvidia.roots import Root


def test_nvswitch_is_found_without_a_driver(root: Root) -> None:
    for name, value in {"vendor": "0x10de", "device": "0x22a3", "class": "0x068000"}.items():
        root.write(f"/sys/bus/pci/devices/0000:07:00.0/{name}", f"{value}\n")
    assert has_nvswitch(root.tree) is True
    assert read_gpus(root.tree) == []


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

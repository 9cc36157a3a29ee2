# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of cards against rates of data sheets, and names."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import cards
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal


# Dense TFLOPS of data sheets, with accumulation in fp32.
@pytest.mark.parametrize(
    ("name", "dtype", "tflops"),
    [
        ("V100 SXM2 32 GB", "fp16", 125),
        ("T4", "fp16", 65),
        ("A100 SXM4 80 GB", "bf16", 312),
        ("A100 SXM4 80 GB", "tf32", 156),
        ("RTX 3090", "bf16", 71),
        ("RTX 4090", "bf16", 165.2),
        ("RTX A6000", "bf16", 154.8),
        ("L40", "bf16", 181),
        ("L40S", "bf16", 362),
        ("H100 SXM5 80 GB", "bf16", 989),
        ("H100 PCIe 80 GB", "bf16", 756),
        ("H200 NVL", "bf16", 835),
        ("RTX 5090", "bf16", 209.5),
        ("B200", "bf16", 2250),
        ("GTX 1080 Ti", "fp32", 11.3),
    ],
)
def test_rates_are_those_of_data_sheets(name: str, dtype: str, tflops: float) -> None:
    assert cards.find(name).tflops(dtype) == pytest.approx(tflops, rel=0.015)


@pytest.mark.parametrize(
    ("nvml", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 SXM5 80 GB"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA H200", "H200 SXM 141 GB"),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM4 40 GB"),
        ("Tesla T4", "T4"),
        ("Tesla V100-SXM2-16GB", "V100 SXM2 16 GB"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada Generation"),
        ("NVIDIA L40S", "L40S"),
        ("rtx_4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 3050", "RTX 3050 8 GB"),
        ("A100-SXM-80GB", "A100 SXM4 80 GB"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000 Blackwell"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX PRO 6000 Blackwell Max-Q"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell Server"),
    ],
)
def test_names_of_nvml_are_found(nvml: str, name: str) -> None:
    assert cards.find(nvml).name == name


def test_an_unknown_card_names_the_nearest() -> None:
    with pytest.raises(Refusal, match=r"`cards`: RTX 4099 is not in the table; the nearest are RTX 4090"):
        cards.find("RTX 4099")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("h100 sxn", "`cards`: h100 sxn is not in the table; the nearest are H100 SXM5 80 GB"),
        ("3090tii", "the nearest are RTX 3090 Ti"),
        # One memory is that of many cards.
        ("80GB", "`cards`: 80GB is not in the table"),
        ("", "`cards`: an empty name is not in the table"),
        ("x\x1b[31m", r"`cards`: x\?\[31m is not in the table"),
    ],
)
def test_a_name_in_another_spelling(name: str, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        cards.find(name)


def test_data_sheets_against_the_reference() -> None:
    """The board of an A16 has four GPUs and 250 W; NVIDIA's sheet of the RTX 2000 Ada has 224 GB/s."""
    assert cards.find("A16").power_w == 62
    assert cards.find("RTX 2000 Ada").bandwidth_gb_s == 224


@pytest.mark.parametrize("card", cards.CARDS, ids=lambda card: card.name)
def test_every_card_has_rates_and_a_source(card: cards.Card) -> None:
    rates = card.rates()
    assert min(rates[:4]) > 0
    assert card.source
    assert 0.9 * card.memory_gb <= card.bytes / cards.GIB <= card.memory_gb
    assert 30 <= card.power_w <= 1400


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("h100 sxm", "H100 SXM5 80 GB"),
        ("H100 80GB", "H100 SXM5 80 GB"),
        ("h100-pcie-80gb", "H100 PCIe 80 GB"),
        ("A100 40GB", "A100 SXM4 40 GB"),
        ("A100-80G", "A100 SXM4 80 GB"),
        ("3090ti", "RTX 3090 Ti"),
        ("4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 4090 D", "RTX 4090 D"),
        ("NVIDIA GeForce RTX 4060 Laptop GPU", "RTX 4060 Laptop"),
        ("A6000", "RTX A6000"),
        ("V100", "V100 SXM2 16 GB"),
        ("A10G", "A10G"),
        ("H20", "H20 96 GB"),
        ("NVIDIA H800", "H800 SXM5 80 GB"),
        ("NVIDIA GH200 480GB", "GH200 96 GB"),
        ("NVIDIA B300", "B300"),
        ("NVIDIA GB10", "GB10"),
        ("RTX 6000 Ada", "RTX 6000 Ada Generation"),
    ],
)
def test_people_call_cards_by_short_names(name: str, card: str) -> None:
    assert cards.find(name).name == card


@pytest.mark.parametrize("card", cards.CARDS, ids=lambda card: card.name)
def test_a_card_is_found_by_its_name(card: cards.Card) -> None:
    assert cards.find(card.name) == cards.find(f"NVIDIA {card.name}") == card


def test_half_the_power_is_not_the_full_speed() -> None:
    full, half = (cards.find(f"RTX PRO 6000 Blackwell{more}") for more in ("", " Max-Q"))
    assert half.rates().bf16 < 0.85 * full.rates().bf16
    # What was measured at 700 W.
    assert cards.find("H100").rates().bf16 == pytest.approx(709, rel=0.01)


def test_names_are_different() -> None:
    assert len({card.name for card in cards.CARDS}) == len(cards.CARDS)


def test_memory_is_that_of_nvml() -> None:
    # Read on the H100 of docs/measurements/gpu_fit_h100.json.
    assert cards.find("H100").bytes == pytest.approx(85520809984, rel=0.002)

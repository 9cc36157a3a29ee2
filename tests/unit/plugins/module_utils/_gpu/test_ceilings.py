# SPDX-License-Identifier: GPL-3.0-or-later
"""Ceilings from SMs, clocks and bus, compared with NVIDIA's data sheets."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import ceilings

# Capability, brand, name, SMs, boost clock, and the data sheet's dense fp16 (bf16) rate with fp32 accumulation.
CARDS = [
    ("7.0", "tesla", "Tesla V100-SXM2-32GB", 80, 1530, 125),
    ("7.5", "tesla", "Tesla T4", 40, 1590, 65),
    ("7.5", "geforce", "NVIDIA GeForce RTX 2080 Ti", 68, 1545, 53.8),
    ("7.5", "titan_rtx", "NVIDIA TITAN RTX", 72, 1770, 130.5),
    ("8.0", "nvidia", "NVIDIA A100-SXM4-80GB", 108, 1410, 312),
    ("8.0", "nvidia", "NVIDIA A30", 56, 1440, 165),
    ("8.6", "geforce", "NVIDIA GeForce RTX 3060", 28, 1777, 25.5),
    ("8.6", "geforce", "NVIDIA GeForce RTX 3090", 82, 1695, 71.2),
    ("8.6", "quadro_rtx", "NVIDIA RTX A6000", 84, 1800, 154.8),
    ("8.6", "nvidia", "NVIDIA A10", 72, 1695, 125),
    ("8.6", "nvidia", "NVIDIA A40", 84, 1740, 149.7),
    ("8.9", "geforce", "NVIDIA GeForce RTX 4090", 128, 2520, 165.2),
    ("8.9", "nvidia", "NVIDIA L4", 58, 2040, 121),
    ("8.9", "nvidia", "NVIDIA L40", 142, 2490, 181),
    ("8.9", "nvidia", "NVIDIA L40S", 142, 2520, 366),
    ("9.0", "nvidia", "NVIDIA H100 80GB HBM3", 132, 1830, 989),
    ("9.0", "nvidia", "NVIDIA H200", 132, 1830, 989),
    ("10.0", "nvidia", "NVIDIA B200", 148, 1850, 2250),
    ("12.0", "geforce", "NVIDIA GeForce RTX 5090", 170, 2407, 209.5),
    ("12.0", "nvidia_rtx", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 188, 2617, 504),
]

# NVML's highest memory clock, bus, and the data sheet's bandwidth.
MEMORIES = [
    ("GTX 1080", 5005, 256, 320),
    ("V100", 877, 4096, 900),
    ("T4", 5001, 256, 320),
    ("H100", 2619, 5120, 3350),
    ("H200", 3201, 6016, 4800),
    ("RTX 5090", 14001, 512, 1792),
]


@pytest.mark.parametrize(("capability", "brand", "name", "sm", "clock", "sheet"), CARDS, ids=[row[2] for row in CARDS])
def test_peak_matches_the_data_sheet(capability: str, brand: str, name: str, sm: int, clock: int, sheet: float) -> None:
    assert ceilings.peak_tflops(capability, brand, sm, clock, "fp16", name) == pytest.approx(sheet, rel=0.01)


@pytest.mark.parametrize(("name", "clock", "bus", "sheet"), MEMORIES, ids=[row[0] for row in MEMORIES])
def test_bandwidth_matches_the_data_sheet(name: str, clock: int, bus: int, sheet: float) -> None:
    assert ceilings.bandwidth_gb_s(clock, bus) == pytest.approx(sheet, rel=0.005)


@pytest.mark.parametrize(
    ("dtype", "sheet"), [("fp64", 33.5), ("fp32", 66.9), ("tf32", 494.7), ("bf16", 989), ("fp8", 1979)]
)
def test_every_dtype_of_an_h100_has_its_own_peak(dtype: str, sheet: float) -> None:
    # The rates without tensor cores are stated at 1980 MHz, those with them at 1830.
    clock = 1980 if dtype in ("fp64", "fp32") else 1830
    assert ceilings.peak_tflops("9.0", "nvidia", 132, clock, dtype) == pytest.approx(sheet, rel=0.01)


@pytest.mark.parametrize("name", ["RTX 4090", "RTX 3090"])
def test_peaks_are_with_tensor_cores_unlike_lightnings(name: str) -> None:
    capability, brand, full, sm, clock, sheet = next(row for row in CARDS if row[2].endswith(name))
    with_tensor = ceilings.peak_tflops(capability, brand, sm, clock, "bf16", full)
    without = ceilings.peak_tflops(capability, brand, sm, clock, "fp32", full)
    assert with_tensor == pytest.approx(sheet, rel=0.01)
    assert without == pytest.approx(sheet / 2, rel=0.01)


@pytest.mark.parametrize(
    ("capability", "dtype"),
    [("6.1", "fp16"), ("7.0", "bf16"), ("7.5", "tf32"), ("8.0", "fp8"), ("10.3", "fp64"), ("9.0", "fp3")],
)
def test_missing_arithmetic_has_no_peak(capability: str, dtype: str) -> None:
    assert ceilings.peak_tflops(capability, "nvidia", 100, 1000, dtype) is None


def test_unknown_architecture_has_no_peak() -> None:
    assert ceilings.peak_tflops("13.0", "nvidia", 100, 1000, "fp16") is None
    assert ceilings.sm_count("13.0", 12800) is None


@pytest.mark.parametrize(("sm", "clock"), [(None, 1000), (100, None)])
def test_unknown_sms_or_clock_have_no_peak(sm: int | None, clock: int | None) -> None:
    assert ceilings.peak_tflops("9.0", "nvidia", sm, clock, "fp16") is None


def test_a_card_without_memory_clock_or_bus_has_no_bandwidth() -> None:
    assert ceilings.bandwidth_gb_s(None, 384) is None
    assert ceilings.bandwidth_gb_s(10501, None) is None


@pytest.mark.parametrize(
    ("capability", "cores", "sm"),
    [
        ("6.1", 2560, 20),
        ("7.0", 5120, 80),
        ("7.5", 2560, 40),
        ("8.0", 6912, 108),
        ("8.9", 16384, 128),
        ("9.0", 16896, 132),
    ],
)
def test_sm_count_is_cores_divided_by_cores_of_an_sm(capability: str, cores: int, sm: int) -> None:
    assert ceilings.sm_count(capability, cores) == sm


def test_unknown_cores_have_no_sm_count() -> None:
    assert ceilings.sm_count("9.0", None) is None


def test_every_dtype_has_a_peak_on_some_architecture() -> None:
    for dtype in ceilings.DTYPES:
        assert any(ceilings.operations(capability, "nvidia", dtype) for capability in ceilings.SMS)

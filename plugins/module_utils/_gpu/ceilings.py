# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The highest rates that a card can reach, from its own facts: SMs, clocks, bus. There is no table of models.

A rate that is not known for an architecture is None: no ceiling is better than a wrong one.
"""

from __future__ import annotations

import typing as t

DTYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8")


class Sm(t.NamedTuple):
    """One SM of a compute capability.

    *cores* are the fp32 cores: each does a multiplication and an addition a clock. *fp64* are operations a clock without tensor cores.
    *tensor* are operations a clock of dense fp16 with fp32 accumulation; *halved* cards do them at half that rate.
    *dtypes* are the types that the tensor cores support.
    """

    cores: int
    fp64: int | None
    tensor: int | None
    halved: bool
    dtypes: tuple[str, ...]


_AMPERE = ("fp16", "bf16", "tf32")
_ADA = (*_AMPERE, "fp8")

# cores and fp64 (its results a clock, times two): CUDA C++ programming guide, table "Throughput of Native Arithmetic Instructions".
# It does not list 10.3 for fp64 where 10.0 is, hence None.
# tensor: architecture whitepapers V100 (1024 = 8 tensor cores x 64 FMA x 2), Turing TU102, A100, GA102, Ada AD102, H100, Blackwell RTX;
# Blackwell 10.x: 2250 dense TFLOPS of the B200's data sheet over 148 SMs at 1.85 GHz.
SMS: dict[str, Sm] = {
    "6.0": Sm(64, 64, None, False, ()),
    "6.1": Sm(128, 8, None, False, ()),
    "7.0": Sm(64, 64, 1024, False, ("fp16",)),
    "7.5": Sm(64, 4, 1024, True, ("fp16",)),
    "8.0": Sm(64, 64, 2048, False, _AMPERE),
    "8.6": Sm(128, 4, 1024, True, _AMPERE),
    "8.9": Sm(128, 4, 1024, True, _ADA),
    "9.0": Sm(128, 128, 4096, False, _ADA),
    "10.0": Sm(128, 128, 8192, False, _ADA),
    "10.3": Sm(128, None, 8192, False, _ADA),
    "12.0": Sm(128, 4, 1024, True, _ADA),
    "12.1": Sm(128, 4, 1024, True, _ADA),
}

# Against fp16: A100, H100, Ada and Blackwell RTX whitepapers, tables of peak rates (dense).
_SHARE = {"fp16": 1.0, "bf16": 1.0, "tf32": 0.5, "fp8": 2.0}

# Operations of fp64 a clock with tensor cores, where they have it, as cuBLAS uses them: whitepapers of A100 (19.5 TFLOPS over 108 SMs at
# 1.41 GHz) and H100 (66.9 over 132 at 1.98 GHz), data sheet of B200 (37 over 148 at 1.96 GHz).
_FP64_TENSOR = {"8.0": 128, "9.0": 256, "10.0": 128}

# Accumulate in fp32 at half the rate of their architecture: whitepapers of Turing, GA102, Ada and Blackwell RTX for GeForce;
# data sheets of L40 (181 TFLOPS) and L40S (362) of the same chip. Titan RTX does not.
_HALVED_BRANDS = frozenset({"geforce", "geforce_rtx"})
_HALVED_NAMES = frozenset({"NVIDIA L40"})


def sm_count(capability: str, cores: int | None) -> int | None:
    """Return the number of SMs. NVML reports the number of fp32 cores only."""
    sm = SMS.get(capability)
    return cores // sm.cores if sm and cores else None


def operations(capability: str, brand: str, dtype: str, name: str = "") -> int | None:
    """Return the floating point operations of one SM in one clock.

    None where the architecture is unknown, or has no such arithmetic.

    :param brand: as ``gpu_info`` returns it: ``geforce``, ``quadro_rtx``, ``nvidia`` ...
    :param name: the model.
    """
    sm = SMS.get(capability)
    if sm is None:
        return None
    if dtype == "fp32":
        return 2 * sm.cores
    if dtype == "fp64":
        return sm.fp64
    if dtype == "fp64_tensor":
        return _FP64_TENSOR.get(capability)
    if sm.tensor is None or dtype not in sm.dtypes:
        return None
    halved = sm.halved and (brand in _HALVED_BRANDS or name in _HALVED_NAMES)
    return int(sm.tensor * _SHARE[dtype]) // (2 if halved else 1)


def peak_tflops(
    capability: str, brand: str, sm: int | None, clock_mhz: float | None, dtype: str, name: str = ""
) -> float | None:
    """Return the dense peak rate, accumulated in fp32, at a clock of the SMs.

    :param clock_mhz: the observed clock for an efficiency, the highest clock for a data sheet.
    """
    rate = operations(capability, brand, dtype, name)
    if not (rate and sm and clock_mhz):
        return None
    return round(rate * sm * clock_mhz / 1e6, 2)


def bandwidth_gb_s(clock_mhz: float | None, bus_bits: int | None) -> float | None:
    """Return the bandwidth of the memory at a clock. For every kind of memory, NVML's clock is half the rate of transfers."""
    if not (clock_mhz and bus_bits):
        return None
    return round(2 * clock_mhz * bus_bits / 8 / 1000, 1)

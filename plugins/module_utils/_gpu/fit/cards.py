# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Cards by name: memory, bandwidth, multiprocessors and power. Dense rates follow from `ceilings`, which knows the architectures.

A clock is the one that gives the rates of the card's data sheet. The numbers were compared with `gpu-spec-derived.csv` of the project's
reference, and differ from it where that data base is wrong: V100, L4, L40S, RTX 2000 Ada, H100, H200, A16 (the power of four GPUs), and
B200, whose rows it has for half a card.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import ceilings
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import wording
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.load import Rates
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.speed import SHEET
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

GIB = 2**30


class Card(t.NamedTuple):
    """A card. *usable* is the share of its memory that NVML reports: error correction of GDDR takes a part."""

    name: str
    capability: str
    brand: str
    multiprocessors: int
    clock_mhz: int
    memory_gb: int
    bandwidth_gb_s: int
    power_w: int
    usable: float
    source: str
    # What its tensor cores do of their architecture's rate: export rules limit some cards.
    tensor_share: float = 1.0

    def tflops(self, dtype: str) -> float | None:
        """Return the dense peak rate of the data sheet."""
        peak = ceilings.peak_tflops(
            self.capability, self.brand, self.multiprocessors, self.clock_mhz, dtype, f"NVIDIA {self.name}"
        )
        return peak if peak is None or dtype == "fp32" else peak * self.tensor_share

    def is_called(self, name: str) -> bool:
        """Return whether NVML may call this card so: cards of one name differ in their memory."""
        return _plain(self.name).startswith(_plain(name)) or BY_NAME.get(_plain(name)) == self

    @property
    def bytes(self) -> int:
        """Return the memory that programs can use."""
        return int(self.memory_gb * GIB * self.usable)

    def rates(self) -> Rates:
        """Return what the card reaches, from its data sheet and its power."""
        peak = self.tflops("bf16") or self.tflops("fp16") or 0.0
        matrix = SHEET["matrix"] * self.throttled(peak)
        plain = (self.tflops("fp32") or 0.0) * SHEET["plain"]
        return Rates(
            peak * matrix or plain,
            (self.tflops("tf32") or 0.0) * matrix or plain,
            plain,
            self.bandwidth_gb_s * SHEET["copy"],
            "sheet",
            self.multiprocessors * self.clock_mhz / 1000,
        )

    def throttled(self, peak: float) -> float:
        """Return the share of its clock that a card keeps in large products under its power limit.

        An H100 reaches 709 TFLOPS at 700 W on random data (docs/measurements/gpu_fit_h100.json), and 0.9 of its sheet where nothing
        limits it, so full rate needs 1.115 W for each TFLOPS in 4 nm. Older processes need more by what their maker says of them.
        Between a fixed voltage (power as the clock) and one that follows the clock (as its cube), the power grows as the square.
        """
        wanted = _WATTS.get(self.capability, _WATTS["9.0"]) * peak
        return min(1.0, (self.power_w / wanted) ** 0.5) if wanted else 1.0


# Watts for each TFLOPS of dense fp16. TSMC: 7 to 5 nm -30 %, 16 to 7 nm -60 %, 16 to 10 nm -40 % (Samsung's 8 nm is of that generation),
# 12 nm is 25 % below 16 nm.
_WATTS = {"9.0": 1.115, "8.9": 1.115, "8.0": 1.59, "8.6": 2.39, "7.5": 2.99, "7.0": 2.99}
_PASCAL, _VOLTA, _TURING = "Pascal data sheets", "Volta whitepaper", "Turing whitepaper"
_AMPERE, _GA100, _ADA = "GA102 whitepaper", "A100 data sheet", "Ada whitepaper"
_HOPPER, _BLACKWELL, _B200 = "H100 and H200 data sheets", "Blackwell RTX whitepaper", "B200 data sheet"
_PRO, _LAPTOP = "data sheet of the card", "data sheet of the GPU for laptops, at its highest power"

# Name, compute capability, brand of NVML, SMs, MHz, GB, GB/s, W, usable share of the memory, source (of NVIDIA).
# fmt: off
CARDS: tuple[Card, ...] = (
    Card("GTX 1060 6 GB", "6.1", "geforce", 10, 1709, 6, 192, 120, 0.98, _PASCAL),
    Card("GTX 1070", "6.1", "geforce", 15, 1683, 8, 256, 150, 0.98, _PASCAL),
    Card("GTX 1070 Ti", "6.1", "geforce", 19, 1683, 8, 256, 180, 0.98, _PASCAL),
    Card("GTX 1080", "6.1", "geforce", 20, 1733, 8, 320, 180, 0.98, _PASCAL),
    Card("GTX 1080 Ti", "6.1", "geforce", 28, 1582, 11, 484, 250, 0.98, _PASCAL),
    Card("TITAN Xp", "6.1", "titan", 30, 1582, 12, 548, 250, 0.98, _PASCAL),
    Card("RTX 2060", "7.5", "geforce_rtx", 30, 1680, 6, 336, 160, 0.98, _TURING),
    Card("RTX 2060 SUPER", "7.5", "geforce_rtx", 34, 1650, 8, 448, 175, 0.98, _TURING),
    Card("RTX 2070", "7.5", "geforce_rtx", 36, 1620, 8, 448, 175, 0.98, _TURING),
    Card("RTX 2070 SUPER", "7.5", "geforce_rtx", 40, 1770, 8, 448, 215, 0.98, _TURING),
    Card("RTX 2080", "7.5", "geforce_rtx", 46, 1710, 8, 448, 215, 0.98, _TURING),
    Card("RTX 2080 SUPER", "7.5", "geforce_rtx", 48, 1815, 8, 496, 250, 0.98, _TURING),
    Card("RTX 2080 Ti", "7.5", "geforce_rtx", 68, 1545, 11, 616, 250, 0.98, _TURING),
    Card("TITAN RTX", "7.5", "titan", 72, 1770, 24, 672, 280, 0.98, _TURING),
    Card("TITAN V", "7.0", "titan", 80, 1455, 12, 651, 250, 0.98, _VOLTA),
    Card("RTX 3050 8 GB", "8.6", "geforce_rtx", 20, 1777, 8, 224, 130, 0.98, _AMPERE),
    Card("RTX 3060 12 GB", "8.6", "geforce_rtx", 28, 1777, 12, 360, 170, 0.98, _AMPERE),
    Card("RTX 3060 Ti", "8.6", "geforce_rtx", 38, 1665, 8, 448, 200, 0.98, _AMPERE),
    Card("RTX 3070", "8.6", "geforce_rtx", 46, 1725, 8, 448, 220, 0.98, _AMPERE),
    Card("RTX 3070 Ti", "8.6", "geforce_rtx", 48, 1770, 8, 608, 290, 0.98, _AMPERE),
    Card("RTX 3080", "8.6", "geforce_rtx", 68, 1710, 10, 760, 320, 0.98, _AMPERE),
    Card("RTX 3080 12 GB", "8.6", "geforce_rtx", 70, 1710, 12, 912, 350, 0.98, _AMPERE),
    Card("RTX 3080 Ti", "8.6", "geforce_rtx", 80, 1665, 12, 912, 350, 0.98, _AMPERE),
    Card("RTX 3090", "8.6", "geforce_rtx", 82, 1695, 24, 936, 350, 0.98, _AMPERE),
    Card("RTX 3090 Ti", "8.6", "geforce_rtx", 84, 1860, 24, 1008, 450, 0.98, _AMPERE),
    Card("RTX 4060", "8.9", "geforce_rtx", 24, 2460, 8, 272, 115, 0.98, _ADA),
    Card("RTX 4060 Ti 8 GB", "8.9", "geforce_rtx", 34, 2535, 8, 288, 160, 0.98, _ADA),
    Card("RTX 4060 Ti 16 GB", "8.9", "geforce_rtx", 34, 2535, 16, 288, 165, 0.98, _ADA),
    Card("RTX 4070", "8.9", "geforce_rtx", 46, 2475, 12, 504, 200, 0.98, _ADA),
    Card("RTX 4070 SUPER", "8.9", "geforce_rtx", 56, 2475, 12, 504, 220, 0.98, _ADA),
    Card("RTX 4070 Ti", "8.9", "geforce_rtx", 60, 2610, 12, 504, 285, 0.98, _ADA),
    Card("RTX 4070 Ti SUPER", "8.9", "geforce_rtx", 66, 2610, 16, 672, 285, 0.98, _ADA),
    Card("RTX 4080", "8.9", "geforce_rtx", 76, 2505, 16, 717, 320, 0.98, _ADA),
    Card("RTX 4080 SUPER", "8.9", "geforce_rtx", 80, 2550, 16, 736, 320, 0.98, _ADA),
    Card("RTX 4090", "8.9", "geforce_rtx", 128, 2520, 24, 1008, 450, 0.98, _ADA),
    Card("RTX 4090 D", "8.9", "geforce_rtx", 114, 2520, 24, 1008, 425, 0.98, _ADA),
    Card("RTX 3060 Laptop", "8.6", "geforce_rtx", 30, 1425, 6, 336, 115, 0.98, _LAPTOP),
    Card("RTX 3070 Laptop", "8.6", "geforce_rtx", 40, 1620, 8, 448, 125, 0.98, _LAPTOP),
    Card("RTX 3070 Ti Laptop", "8.6", "geforce_rtx", 46, 1485, 8, 448, 125, 0.98, _LAPTOP),
    Card("RTX 3080 Laptop", "8.6", "geforce_rtx", 48, 1710, 16, 448, 150, 0.98, _LAPTOP),
    Card("RTX 3080 Ti Laptop", "8.6", "geforce_rtx", 58, 1590, 16, 512, 150, 0.98, _LAPTOP),
    Card("RTX 4050 Laptop", "8.9", "geforce_rtx", 20, 2370, 6, 192, 115, 0.98, _LAPTOP),
    Card("RTX 4060 Laptop", "8.9", "geforce_rtx", 24, 2370, 8, 256, 115, 0.98, _LAPTOP),
    Card("RTX 4070 Laptop", "8.9", "geforce_rtx", 36, 2175, 8, 256, 115, 0.98, _LAPTOP),
    Card("RTX 4080 Laptop", "8.9", "geforce_rtx", 58, 2280, 12, 432, 150, 0.98, _LAPTOP),
    Card("RTX 4090 Laptop", "8.9", "geforce_rtx", 76, 2040, 16, 576, 150, 0.98, _LAPTOP),
    Card("RTX 5070 Laptop", "12.0", "geforce_rtx", 36, 2347, 8, 384, 100, 0.98, _LAPTOP),
    Card("RTX 5080 Laptop", "12.0", "geforce_rtx", 60, 2287, 16, 896, 150, 0.98, _LAPTOP),
    Card("RTX 5090 Laptop", "12.0", "geforce_rtx", 82, 2160, 24, 896, 150, 0.98, _LAPTOP),
    Card("RTX 5050", "12.0", "geforce_rtx", 20, 2572, 8, 320, 130, 0.98, _BLACKWELL),
    Card("RTX 5060", "12.0", "geforce_rtx", 30, 2497, 8, 448, 145, 0.98, _BLACKWELL),
    Card("RTX 5060 Ti 8 GB", "12.0", "geforce_rtx", 36, 2572, 8, 448, 180, 0.98, _BLACKWELL),
    Card("RTX 5060 Ti 16 GB", "12.0", "geforce_rtx", 36, 2572, 16, 448, 180, 0.98, _BLACKWELL),
    Card("RTX 5070", "12.0", "geforce_rtx", 48, 2512, 12, 672, 250, 0.98, _BLACKWELL),
    Card("RTX 5070 Ti", "12.0", "geforce_rtx", 70, 2452, 16, 896, 300, 0.98, _BLACKWELL),
    Card("RTX 5080", "12.0", "geforce_rtx", 84, 2617, 16, 960, 360, 0.98, _BLACKWELL),
    Card("RTX 5090", "12.0", "geforce_rtx", 170, 2407, 32, 1792, 575, 0.98, _BLACKWELL),
    Card("Quadro RTX 4000", "7.5", "nvidia", 36, 1545, 8, 416, 160, 0.98, _PRO),
    Card("Quadro RTX 5000", "7.5", "nvidia", 48, 1815, 16, 448, 230, 0.98, _PRO),
    Card("Quadro RTX 6000", "7.5", "nvidia", 72, 1770, 24, 672, 260, 0.98, _PRO),
    Card("Quadro RTX 8000", "7.5", "nvidia", 72, 1770, 48, 672, 260, 0.98, _PRO),
    Card("RTX A2000", "8.6", "nvidia", 26, 1200, 6, 288, 70, 0.98, _PRO),
    Card("RTX A2000 12 GB", "8.6", "nvidia", 26, 1200, 12, 288, 70, 0.98, _PRO),
    Card("RTX A4000", "8.6", "nvidia", 48, 1560, 16, 448, 140, 0.98, _PRO),
    Card("RTX A4500", "8.6", "nvidia", 56, 1650, 20, 640, 200, 0.98, _PRO),
    Card("RTX A5000", "8.6", "nvidia", 64, 1695, 24, 768, 230, 0.98, _PRO),
    Card("RTX A5500", "8.6", "nvidia", 80, 1665, 24, 768, 230, 0.98, _PRO),
    Card("RTX A6000", "8.6", "nvidia", 84, 1800, 48, 768, 300, 0.98, _PRO),
    Card("RTX 2000 Ada Generation", "8.9", "nvidia", 22, 2130, 16, 224, 70, 0.98, _PRO),
    Card("RTX 4000 Ada Generation", "8.9", "nvidia", 48, 2175, 20, 360, 130, 0.98, _PRO),
    Card("RTX 4000 SFF Ada Generation", "8.9", "nvidia", 48, 1560, 20, 280, 70, 0.98, _PRO),
    Card("RTX 4500 Ada Generation", "8.9", "nvidia", 60, 2580, 24, 432, 210, 0.98, _PRO),
    Card("RTX 5000 Ada Generation", "8.9", "nvidia", 100, 2550, 32, 576, 250, 0.98, _PRO),
    Card("RTX 5880 Ada Generation", "8.9", "nvidia", 110, 2460, 48, 864, 285, 0.98, _PRO),
    Card("RTX 6000 Ada Generation", "8.9", "nvidia", 142, 2505, 48, 960, 300, 0.98, _PRO),
    Card("RTX PRO 2000 Blackwell", "12.0", "nvidia", 34, 1957, 16, 288, 70, 0.98, _PRO),
    Card("RTX PRO 4000 Blackwell", "12.0", "nvidia", 70, 2055, 24, 672, 140, 0.98, _PRO),
    Card("RTX PRO 4500 Blackwell", "12.0", "nvidia", 82, 2407, 32, 896, 200, 0.98, _PRO),
    Card("RTX PRO 5000 Blackwell", "12.0", "nvidia", 110, 2377, 48, 1344, 300, 0.98, _PRO),
    Card("RTX PRO 6000 Blackwell", "12.0", "nvidia", 188, 2617, 96, 1792, 600, 0.98, _PRO),
    Card("RTX PRO 6000 Blackwell Max-Q", "12.0", "nvidia", 188, 2280, 96, 1792, 300, 0.98, _PRO),
    Card("RTX PRO 6000 Blackwell Server", "12.0", "nvidia", 188, 2617, 96, 1792, 600, 0.98, _PRO),
    Card("P100 PCIe 16 GB", "6.0", "nvidia", 56, 1329, 16, 732, 250, 0.98, _PASCAL),
    Card("P40", "6.1", "nvidia", 30, 1531, 24, 347, 250, 0.937, _PASCAL),
    Card("V100 PCIe 16 GB", "7.0", "nvidia", 80, 1380, 16, 900, 250, 0.98, _VOLTA),
    Card("V100 PCIe 32 GB", "7.0", "nvidia", 80, 1380, 32, 900, 250, 0.98, _VOLTA),
    Card("V100 SXM2 16 GB", "7.0", "nvidia", 80, 1530, 16, 900, 300, 0.98, _VOLTA),
    Card("V100 SXM2 32 GB", "7.0", "nvidia", 80, 1530, 32, 900, 300, 0.98, _VOLTA),
    Card("V100S PCIe 32 GB", "7.0", "nvidia", 80, 1597, 32, 1134, 250, 0.98, _VOLTA),
    Card("T4", "7.5", "nvidia", 40, 1590, 16, 320, 70, 0.937, _PRO),
    Card("A2", "8.6", "nvidia", 10, 1770, 16, 200, 60, 0.937, _PRO),
    Card("A10 PCIe", "8.6", "nvidia", 72, 1695, 24, 600, 150, 0.937, _PRO),
    # Its tensor cores accumulate at half rate: 70 TFLOPS in fp16 (Amazon, EC2 G5).
    Card("A10G", "8.6", "geforce_rtx", 72, 1710, 24, 600, 300, 0.937, _PRO),
    # One of the four GPUs of a board, with a fourth of its 250 W.
    Card("A16 PCIe", "8.6", "nvidia", 10, 1755, 16, 200, 62, 0.937, _PRO),
    Card("A30 PCIe", "8.0", "nvidia", 56, 1440, 24, 933, 165, 0.98, _GA100),
    Card("A40 PCIe", "8.6", "nvidia", 84, 1740, 48, 696, 300, 0.937, _PRO),
    Card("A100 PCIe 40 GB", "8.0", "nvidia", 108, 1410, 40, 1555, 250, 0.98, _GA100),
    Card("A100 PCIe 80 GB", "8.0", "nvidia", 108, 1410, 80, 1935, 300, 0.98, _GA100),
    Card("A100 SXM4 40 GB", "8.0", "nvidia", 108, 1410, 40, 1555, 400, 0.98, _GA100),
    Card("A100 SXM4 80 GB", "8.0", "nvidia", 108, 1410, 80, 2039, 400, 0.98, _GA100),
    Card("A800 PCIe 80 GB", "8.0", "nvidia", 108, 1410, 80, 1935, 300, 0.98, _GA100),
    Card("A800 SXM4 80 GB", "8.0", "nvidia", 108, 1410, 80, 2039, 400, 0.98, _GA100),
    Card("L4", "8.9", "nvidia", 58, 2040, 24, 300, 72, 0.937, _PRO),
    Card("L40", "8.9", "nvidia", 142, 2490, 48, 864, 300, 0.937, _PRO),
    Card("L40S", "8.9", "nvidia", 142, 2520, 48, 864, 350, 0.937, _PRO),
    Card("H100 PCIe 80 GB", "9.0", "nvidia", 114, 1620, 80, 2000, 350, 0.98, _HOPPER),
    Card("H100 SXM5 80 GB", "9.0", "nvidia", 132, 1830, 80, 3350, 700, 0.995, _HOPPER),
    Card("H100 NVL 94 GB", "9.0", "nvidia", 132, 1545, 94, 3900, 400, 0.98, _HOPPER),
    Card("H800 SXM5 80 GB", "9.0", "nvidia", 132, 1830, 80, 3350, 700, 0.995, _HOPPER),
    # 148 dense TFLOPS in bf16 of its data sheet.
    Card("H20 96 GB", "9.0", "nvidia", 78, 1980, 96, 4000, 400, 0.995, _HOPPER, 0.234),
    # The GPU of the superchip: the name that NVML has counts the memory of the processor.
    Card("GH200 96 GB", "9.0", "nvidia", 132, 1830, 96, 4000, 700, 0.995, _HOPPER),
    Card("GH200 144 GB", "9.0", "nvidia", 132, 1830, 144, 4900, 700, 0.98, _HOPPER),
    Card("H200 SXM 141 GB", "9.0", "nvidia", 132, 1830, 141, 4800, 700, 0.995, _HOPPER),
    Card("H200 NVL", "9.0", "nvidia", 132, 1545, 141, 4800, 600, 0.995, _HOPPER),
    Card("B200", "10.0", "nvidia", 148, 1850, 180, 8000, 1000, 0.98, _B200),
    Card("B300", "10.3", "nvidia", 148, 1850, 288, 8000, 1400, 0.933, _B200),
    # Its memory is that of the processor, which needs a part.
    Card("GB10", "12.1", "nvidia", 48, 2418, 128, 273, 140, 0.93, _PRO),
)
# fmt: on


def _plain(name: str) -> str:
    """Return a name as one compares it: NVML's and the table's differ in the maker and in spaces."""
    plain = name.lower()
    for dropped in ("nvidia", "geforce", "tesla", "quadro", "generation", "edition", "workstation", "gpu", "-", "_"):
        plain = plain.replace(dropped, " ")
    return "".join(plain.split())


BY_NAME = {_plain(card.name): card for card in CARDS}
# What NVML and people call cards whose names in the table have more plain.
for _alias, _name in {
    "H100 80GB HBM3": "H100 SXM5 80 GB",
    "H100 80GB HBM2e": "H100 PCIe 80 GB",
    "H100": "H100 SXM5 80 GB",
    "H100 PCIe": "H100 PCIe 80 GB",
    "H100 NVL": "H100 NVL 94 GB",
    "H200": "H200 SXM 141 GB",
    "A100": "A100 SXM4 80 GB",
    "A100-SXM4-40GB": "A100 SXM4 40 GB",
    "A100-SXM4-80GB": "A100 SXM4 80 GB",
    "A100-PCIE-40GB": "A100 PCIe 40 GB",
    "A100 80GB PCIe": "A100 PCIe 80 GB",
    "A10": "A10 PCIe",
    "A16": "A16 PCIe",
    "A30": "A30 PCIe",
    "A40": "A40 PCIe",
    "V100-SXM2-16GB": "V100 SXM2 16 GB",
    "V100-SXM2-32GB": "V100 SXM2 32 GB",
    "P100-PCIE-16GB": "P100 PCIe 16 GB",
    "A100-SXM-40GB": "A100 SXM4 40 GB",
    "A100-SXM-80GB": "A100 SXM4 80 GB",
    "RTX PRO 6000 Blackwell Server Edition": "RTX PRO 6000 Blackwell Server",
    "GH200 480GB": "GH200 96 GB",
    "GH200 120GB": "GH200 96 GB",
    "GH200": "GH200 96 GB",
    "V100": "V100 SXM2 16 GB",
    "V100 32GB": "V100 SXM2 32 GB",
    "P100": "P100 PCIe 16 GB",
    "DGX Spark": "GB10",
    "RTX 3050": "RTX 3050 8 GB",
    "RTX 3060": "RTX 3060 12 GB",
    "RTX 4060 Ti": "RTX 4060 Ti 8 GB",
    "RTX 5060 Ti": "RTX 5060 Ti 8 GB",
}.items():
    BY_NAME.setdefault(_plain(_alias), BY_NAME[_plain(_name)])


# Words of a name that say how a card is built, and not which one it is.
_BUILT = re.compile(r"pcie|sxm|nvl|\d+gb")
_DROPPED = frozenset(
    {
        "nvidia",
        "geforce",
        "rtx",
        "gtx",
        "tesla",
        "quadro",
        "gpu",
        "generation",
        "edition",
        "workstation",
        "hbm3",
        "hbm3e",
    }
)


def _parts(name: str) -> frozenset[str]:
    """Return the words that tell a card from others; `3090ti`, `A100-40G` and `sxm4` are written in several ways."""
    text = re.sub(r"(\d+) *gi?b?\b", r" \1gb ", re.sub(r"[^a-z0-9]+", " ", name.lower()))
    text = re.sub(r"(sxm)\d", r"\1", re.sub(r"(\d)(ti|super)\b", r"\1 \2", text))
    return frozenset(text.split()) - _DROPPED


def _resembling(name: str) -> list[Card]:
    """Return the cards that have each word of a name, and no other word but of how they are built."""
    wanted = _parts(name)
    if not any(not _BUILT.fullmatch(part) for part in wanted):
        return []
    rows = [(card, _parts(card.name)) for card in CARDS]
    return [card for card, parts in rows if wanted <= parts and all(_BUILT.fullmatch(part) for part in parts - wanted)]


def find(name: str, variable: str = "cards") -> Card:
    """Return the card of a name, which *variable* has.

    :raises Refusal: the table has none.
    """
    # Of one model, people mean the one with more power where they do not say it.
    card = BY_NAME.get(_plain(name)) or max(_resembling(name), key=lambda each: each.power_w, default=None)
    if card is None:
        near = wording.nearest(_plain(name), [card.name for card in CARDS])
        raise Refusal(
            f"`{variable}`: {wording.name(name) or 'an empty name'} is not in the table; the nearest are {near}"
        )
    return card

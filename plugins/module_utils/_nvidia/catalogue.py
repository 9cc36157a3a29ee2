# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPU generations, driver branches and CUDA toolkits. Every fact names its source.

The data is Python, not YAML, because a module takes only Python to the target. So roles (through the plan), modules, tests
and docs/gpu_data.md read the same data, also from an installed collection. Package sources are in ``package_catalogue``.
Branches are numbers (580), versions are strings. A source that begins with "unverified" has not been confirmed; one that
begins with "measured" was seen to happen.
"""

from __future__ import annotations

import typing as t

# --- where facts come from -------------------------------------------------------------------------------------------

_PCI_IDS = "pci.ids 2026.08.22 (pciutils/pciids)"
_OPEN_README = (
    "NVIDIA/open-gpu-kernel-modules, README.md of each release up to 595.45.04: first release that lists the ids"
)
_MATRIX = "docs.nvidia.com/datacenter/tesla/drivers/cuda-toolkit-driver-and-architecture-matrix.html"
_FLAVOURS = "NVIDIA driver 560.35.03 README, kernel_open.html"
_BRANCHES_2026 = "docs.nvidia.com/datacenter/tesla/drivers/615/supported-drivers-and-cuda-toolkit-versions.html"
_BRANCHES_2025 = "docs.nvidia.com/datacenter/tesla/drivers/supported-drivers-and-cuda-toolkit-versions.html (2025)"
_TOOLKITS = "docs.nvidia.com/cuda/cuda-toolkit-release-notes, table of corresponding driver versions"
_MINOR = "docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html"
_COMPUTE = "developer.nvidia.com/cuda-gpus"
_PTX = (
    "llvm/llvm-project, NVPTX.td: sm_89 and sm_90 need PTX 7.8 (CUDA 11.8), sm_100 and sm_120 8.6 and 8.7 (CUDA 12.8),"
    " sm_103 and sm_121 8.8 (CUDA 12.9)"
)
_MIG = "docs.nvidia.com/datacenter/tesla/mig-user-guide/610/supported-gpus.html"
OPEN, CLOSED = "open", "closed"
ARCHIVE, CUDA_REPOSITORY = "archive", "cuda_repository"
COMPUTE, DESKTOP = "compute", "desktop"

# --- generations and chips -------------------------------------------------------------------------------------------


class Generation(t.NamedTuple):
    """The properties that all cards of a generation share. None as the highest stands for: not ended.

    *lowest_cuda* is the first toolkit that compiles for the generation, None if every toolkit below does. The first capability of a
    generation counts, since its code runs on the later ones of its number: that of 10.0 on 10.3, of 12.0 on 12.1.
    """

    name: str
    modules: tuple[str, ...]
    highest_branch: int | None
    lowest_cuda: str | None
    highest_cuda: str | None
    bf16: bool
    source: str


GENERATIONS: tuple[Generation, ...] = (
    Generation(
        "Tesla or older",
        (CLOSED,),
        340,
        None,
        "6.5",
        False,
        "unverified for CUDA; branch: NVIDIA forum, current releases",
    ),
    Generation("Fermi", (CLOSED,), 390, None, "8.0", False, _MATRIX),
    Generation("Kepler", (CLOSED,), 470, None, "11.8", False, _MATRIX),
    Generation("Maxwell", (CLOSED,), 580, None, "12.9", False, _MATRIX + "; modules: " + _FLAVOURS),
    Generation("Pascal", (CLOSED,), 580, None, "12.9", False, _MATRIX + "; modules: " + _FLAVOURS),
    Generation("Volta", (CLOSED,), 580, None, "12.9", False, _MATRIX + "; modules: " + _FLAVOURS),
    Generation("Turing", (OPEN, CLOSED), None, None, None, False, _MATRIX + "; modules: " + _FLAVOURS),
    Generation("Ampere", (OPEN, CLOSED), None, None, None, True, _MATRIX + "; modules: " + _FLAVOURS),
    Generation(
        "Ada", (OPEN, CLOSED), None, "11.8", None, True, _MATRIX + "; modules: " + _FLAVOURS + "; lowest CUDA: " + _PTX
    ),
    Generation(
        "Hopper",
        (OPEN, CLOSED),
        None,
        "11.8",
        None,
        True,
        _MATRIX + "; modules: " + _FLAVOURS + "; lowest CUDA: " + _PTX,
    ),
    Generation(
        "Blackwell", (OPEN,), None, "12.8", None, True, _MATRIX + "; modules: " + _FLAVOURS + "; lowest CUDA: " + _PTX
    ),
)


class LastLibraries(t.NamedTuple):
    """The last libraries with kernels for a generation: minor versions of cuDNN 9, and the CUDA that wheels of PyTorch are for."""

    generation: str
    cudnn: str
    torch_cuda: str
    source: str


_LIBRARIES = (
    "docs.nvidia.com/deeplearning/cudnn/backend, support matrices of 9.10 and 9.11; pytorch/pytorch#157517, #172351:"
    " wheels for CUDA 12.6 are the last with sm_50 to sm_70"
)
LAST_LIBRARIES: tuple[LastLibraries, ...] = (
    LastLibraries("Maxwell", "9.10", "12.6", _LIBRARIES),
    LastLibraries("Pascal", "9.10", "12.6", _LIBRARIES),
    LastLibraries("Volta", "9.10", "12.6", _LIBRARIES),
)


class Chip(t.NamedTuple):
    """Chips that share a compute capability and the first driver release that knew one of their cards."""

    name: str
    generation: str
    compute_capability: str
    lowest_driver: str
    mig: bool
    source: str


_BY_TOOLKIT = _MATRIX + " (first CUDA), driver of that CUDA: " + _TOOLKITS

CHIPS: tuple[Chip, ...] = (
    Chip("Tesla or older", "Tesla or older", "1.x", "", False, "unverified"),
    Chip("GF1xx", "Fermi", "2.x", "", False, _MATRIX),
    Chip("GKxxx", "Kepler", "3.x", "", False, _MATRIX),
    Chip("GM10x", "Maxwell", "5.0", "340", False, _BY_TOOLKIT),
    Chip("GM20x", "Maxwell", "5.2", "340", False, _BY_TOOLKIT),
    Chip("GP100", "Pascal", "6.0", "367.48", False, _BY_TOOLKIT),
    Chip("GP10x", "Pascal", "6.1", "367.48", False, _BY_TOOLKIT),
    Chip("GV100", "Volta", "7.0", "384.81", False, _BY_TOOLKIT),
    Chip("TU1xx", "Turing", "7.5", "410.48", False, _BY_TOOLKIT),
    Chip("GA100", "Ampere", "8.0", "450.36.06", True, _BY_TOOLKIT + "; MIG: " + _MIG),
    Chip("GA10x", "Ampere", "8.6", "455.23", False, "unverified (CUDA 11.1)"),
    Chip("AD10x", "Ada", "8.9", "520.61.05", False, _BY_TOOLKIT),
    Chip("GH100", "Hopper", "9.0", "520.56.06", True, _OPEN_README + "; MIG: " + _MIG),
    Chip("GB10x", "Blackwell", "10.0", "570.86.15", True, _OPEN_README + "; MIG: " + _MIG),
    Chip("GB110", "Blackwell", "10.3", "580.82.07", True, _OPEN_README + "; " + _COMPUTE),
    Chip("GB202", "Blackwell", "12.0", "570.86.16", False, _OPEN_README + "; " + _COMPUTE),
    Chip("GB203", "Blackwell", "12.0", "570.86.16", False, _OPEN_README + "; " + _COMPUTE),
    Chip("GB205", "Blackwell", "12.0", "570.133.07", False, _OPEN_README + "; " + _COMPUTE),
    Chip("GB206", "Blackwell", "12.0", "570.148.08", False, _OPEN_README + "; " + _COMPUTE),
    Chip("GB207", "Blackwell", "12.0", "570.158.01", False, _OPEN_README + "; " + _COMPUTE),
    Chip("GB20B", "Blackwell", "12.1", "580.119.02", False, _OPEN_README + "; " + _COMPUTE),
)

# A card that none of the ranges below holds is newer than this file: it is planned for as one of the newest generation.
# What it can compute, and which driver is the first to know it, is not known.
UNKNOWN_CHIP = Chip("unknown", "Blackwell", "", "", False, "rule: the old cards are listed, so an unknown one is new")


class PciRange(t.NamedTuple):
    """PCI device ids of NVIDIA display controllers, from the first to the last that is listed, both included."""

    first: int
    last: int
    chip: str


# Runs of ids of one kind in pci.ids, engineering samples included. Ids between two runs are unknown on purpose.
PCI_RANGES_SOURCE = _PCI_IDS + "; every id of " + _OPEN_README.split(":", maxsplit=1)[0] + " falls into Turing or newer"
PCI_RANGES: tuple[PciRange, ...] = (
    PciRange(0x0008, 0x065F, "Tesla or older"),
    PciRange(0x06C0, 0x06DF, "GF1xx"),
    PciRange(0x06E0, 0x0CBC, "Tesla or older"),
    PciRange(0x0DC0, 0x0F06, "GF1xx"),
    PciRange(0x0FA0, 0x103F, "GKxxx"),
    PciRange(0x1040, 0x109B, "GF1xx"),
    PciRange(0x10C0, 0x10D8, "Tesla or older"),
    PciRange(0x1140, 0x1140, "GF1xx"),
    PciRange(0x1180, 0x11FF, "GKxxx"),
    PciRange(0x1200, 0x1251, "GF1xx"),
    PciRange(0x1280, 0x130B, "GKxxx"),
    PciRange(0x1340, 0x13BF, "GM10x"),
    PciRange(0x13C0, 0x1436, "GM20x"),
    PciRange(0x15C2, 0x15FF, "GP100"),
    PciRange(0x1613, 0x1676, "GM20x"),
    PciRange(0x1725, 0x172F, "GP100"),
    PciRange(0x174D, 0x179C, "GM10x"),
    PciRange(0x17C2, 0x17FD, "GM20x"),
    PciRange(0x1B00, 0x1D56, "GP10x"),
    PciRange(0x1D81, 0x1DF6, "GV100"),
    PciRange(0x1E02, 0x1FF9, "TU1xx"),
    PciRange(0x2080, 0x20FF, "GA100"),
    PciRange(0x2182, 0x21D1, "TU1xx"),
    PciRange(0x2200, 0x223F, "GA10x"),
    PciRange(0x2302, 0x23F0, "GH100"),
    PciRange(0x2414, 0x25FB, "GA10x"),
    PciRange(0x2681, 0x28F8, "AD10x"),
    PciRange(0x2900, 0x29F1, "GB10x"),
    PciRange(0x2B85, 0x2BBC, "GB202"),
    PciRange(0x2C02, 0x2C79, "GB203"),
    PciRange(0x2D04, 0x2D79, "GB206"),
    PciRange(0x2D83, 0x2DF9, "GB207"),
    PciRange(0x2E03, 0x2E2A, "GB20B"),
    PciRange(0x2F04, 0x2F58, "GB205"),
    PciRange(0x3180, 0x31FE, "GB110"),
)

# Cards that a later release than that of their chip was the first to list. Blackwell alone: only the open modules run it,
# so that their list is the whole one. Developer betas of Vulkan (570.123, 580.94) are left out.
LATER_CARDS: dict[str, tuple[int, ...]] = {
    "570.124.04": (0x2941, 0x2C05),
    "570.133.07": (0x2BB1, 0x2BB4, 0x2C18, 0x2C19, 0x2C58, 0x2C59),
    "570.153.02": (0x2BB3, 0x2D18, 0x2D58),
    "570.158.01": (0x2C38, 0x2C39, 0x2D05, 0x2D19, 0x2D39, 0x2D59, 0x2F38),
    "570.169": (0x2C31, 0x2C34),
    "570.172.08": (0x2D98, 0x2DD8),
    "570.190": (0x2C33, 0x2D30),
    "570.207": (0x2C79, 0x2D79, 0x2DF9),
    "575.57.08": (0x2BB5,),
    "575.64.03": (0x2D83,),
    "580.76.05": (0x2B8C,),
    "580.82.07": (0x29BB, 0x2BB9),
    "580.95.05": (0x2BB2, 0x2BBC),
    "580.105.08": (0x2C77,),
    "580.142": (0x2C3A,),
}
LATER_CARDS_SOURCE = _OPEN_README

# Cards that have MIG although other cards of their chip have not: RTX PRO 6000, 5000 and 4500 Blackwell.
MIG_DEVICES = frozenset({0x2BB1, 0x2BB4, 0x2BB5, 0x2BB3, 0x2C31})
MIG_DEVICES_SOURCE = _MIG + "; ids: " + _PCI_IDS
# And one of GA100 that has not: the mining card.
NO_MIG_DEVICES = frozenset({0x2082, 0x20C2})
NO_MIG_DEVICES_SOURCE = "unverified: CMP 170HX is not in " + _MIG

# --- driver branches -------------------------------------------------------------------------------------------------


class Branch(t.NamedTuple):
    """A driver branch. *kind*: long_term, production, new_feature. *ends*: year-month, "" where it is not published."""

    number: int
    kind: str
    ends: str
    highest_cuda: str
    modules: tuple[str, ...]
    lowest_generation: str
    source: str


# From 590 on only Turing and newer. 620's guide has open modules alone; 610's still lists the closed ones.
BRANCHES: tuple[Branch, ...] = (
    Branch(535, "long_term", "2026-06", "12.2", (OPEN, CLOSED), "Maxwell", _BRANCHES_2026 + "; CUDA: " + _TOOLKITS),
    Branch(
        550, "production", "2025-02", "12.4", (OPEN, CLOSED), "Maxwell", "unverified month; ended: " + _BRANCHES_2025
    ),
    Branch(570, "production", "2026-02", "12.8", (OPEN, CLOSED), "Maxwell", _BRANCHES_2025 + "; CUDA: " + _TOOLKITS),
    Branch(
        575, "new_feature", "2025-08", "12.9", (OPEN, CLOSED), "Maxwell", "unverified month; ended: " + _BRANCHES_2025
    ),
    Branch(580, "long_term", "2028-06", "13.0", (OPEN, CLOSED), "Maxwell", _BRANCHES_2026 + "; CUDA: " + _TOOLKITS),
    Branch(
        590,
        "new_feature",
        "2026-03",
        "13.1",
        (OPEN, CLOSED),
        "Turing",
        "unverified month; " + _MATRIX + "; " + _TOOLKITS,
    ),
    Branch(595, "production", "2027-03", "13.2", (OPEN, CLOSED), "Turing", _BRANCHES_2026 + "; CUDA: " + _TOOLKITS),
    Branch(610, "new_feature", "2026-08", "13.3", (OPEN, CLOSED), "Turing", _BRANCHES_2026 + "; CUDA: " + _TOOLKITS),
    Branch(
        615,
        "new_feature",
        "",
        "13.4",
        (OPEN,),
        "Turing",
        "unverified: 615.71.09 is in the CUDA repository; end and closed modules not known",
    ),
)

# The order in which a branch is chosen when nobody asks for one: the longest supported first, then the newest production branch.
PREFERRED_BRANCHES: tuple[int, ...] = (580, 595, 610, 615, 590, 575, 570, 550, 535)
PREFERRED_BRANCHES_SOURCE = "rule: long-term support first, then what is supported longest; ends as in the branches"

# --- CUDA toolkits ---------------------------------------------------------------------------------------------------


class Toolkit(t.NamedTuple):
    """A CUDA toolkit. *driver* is the first driver with every feature.

    With *minimum* the toolkit runs by minor-version compatibility: PTX of a program cannot be compiled, and features that need the
    newer driver fail.
    """

    version: str
    driver: str
    minimum: str
    source: str


TOOLKITS: tuple[Toolkit, ...] = (
    Toolkit("11.8", "520.61.05", "450.80.02", _TOOLKITS + "; minimum: " + _MINOR),
    Toolkit("12.0", "525.60.13", "525.60.13", _TOOLKITS + "; minimum: " + _MINOR),
    Toolkit("12.1", "530.30.02", "525.60.13", _TOOLKITS + "; minimum: " + _MINOR),
    Toolkit("12.2", "535.54.03", "525.60.13", _TOOLKITS + "; minimum: " + _MINOR),
    Toolkit("12.3", "545.23.06", "525.60.13", _TOOLKITS + "; minimum: " + _MINOR),
    Toolkit("12.4", "550.54.14", "525.60.13", _TOOLKITS + "; minimum: " + _MINOR),
    Toolkit("12.5", "555.42.02", "525.60.13", _TOOLKITS + "; minimum: " + _MINOR),
    Toolkit("12.6", "560.28.03", "525.60.13", _TOOLKITS + "; minimum: " + _MINOR),
    Toolkit("12.8", "570.26", "525.60.13", _TOOLKITS + "; minimum: " + _MINOR),
    Toolkit("12.9", "575.51.03", "525.60.13", _TOOLKITS + "; minimum: " + _MINOR),
    Toolkit("13.0", "580.65.06", "580.65.06", _TOOLKITS + "; minimum: " + _MINOR),
    Toolkit("13.1", "590.44.01", "580.65.06", _TOOLKITS + "; minimum: " + _MINOR),
    Toolkit("13.2", "595.45.04", "580.65.06", _TOOLKITS + "; minimum: " + _MINOR),
    Toolkit("13.3", "610.43.02", "580.65.06", _TOOLKITS + "; minimum: " + _MINOR),
    Toolkit("13.4", "615", "580.65.06", "unverified (the notes name R616 for the preview); minimum: " + _MINOR),
)

# Daemons that keep the GPU open and are no programs of users, by the 15 characters that the kernel keeps of a name. They stop with
# their package, or use the new driver after the next boot.
DAEMONS = ("nvidia-persiste", "nv-fabricmanage", "nv-hostengine")
DAEMONS_SOURCE = "nvidia-persistenced, nvidia-fabricmanager and DCGM: names of their programs"

# --- what does not build ---------------------------------------------------------------------------------------------


class BuildFailure(t.NamedTuple):
    """Driver versions whose module does not build for kernel versions. Each range includes the first and excludes the last."""

    drivers: tuple[str, str]
    kernels: tuple[str, str]
    # Distributions whose own archive carries a fix: there the pair is fine.
    patched_archives: tuple[str, ...]
    reason: str
    source: str


_RESIZE = "pci_resize_resource() takes a fourth argument"
_RESIZE_SOURCE = "torvalds/linux 337b1b566db0, stable 0d63176d355e; fixed in 580.126.09: truenas/scale-build#1002"
_EVERY = "10000"

BUILD_FAILURES: tuple[BuildFailure, ...] = (
    BuildFailure(
        ("515", "580.126.09"),
        ("6.12.97", "6.13"),
        ("Ubuntu",),
        _RESIZE,
        "measured 550.163.01 on 6.12.107 and 6.12.117; NVIDIA/open-gpu-kernel-modules#1272; flatcar/scripts#4205, #4207; "
        + _RESIZE_SOURCE,
    ),
    BuildFailure(
        ("515", "580.126.09"),
        ("6.18.40", "6.19"),
        ("Ubuntu",),
        _RESIZE,
        "strongtz/i915-sriov-dkms#467; " + _RESIZE_SOURCE,
    ),
    BuildFailure(("515", "580.126.09"), ("6.19", _EVERY), ("Ubuntu",), _RESIZE, _RESIZE_SOURCE),
    BuildFailure(
        ("590", "590.48.01"),
        ("6.12.97", "6.13"),
        ("Ubuntu",),
        _RESIZE,
        "NVIDIA/open-gpu-kernel-modules: conftest.sh of 590.44.01 does not look for it, that of 590.48.01 does",
    ),
    BuildFailure(("590", "590.48.01"), ("6.19", _EVERY), ("Ubuntu",), _RESIZE, "as above"),
)

# Room for a driver, its build and the packages' archives, in bytes.
FREE_BYTES = 10 * 1024**3
FREE_BYTES_SOURCE = "issue 4"

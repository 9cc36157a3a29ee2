# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""GPU generations, driver branches, toolkits and package sources: facts alone, each with where it comes from.

It is Python and not YAML because a module carries nothing but Python to the target: so roles (through the plan), modules,
tests and docs/gpu_data.md read one file, also from an installed collection. Branches are numbers (580), versions are strings.
A source that begins with "unverified" has not been confirmed; one that begins with "measured" was seen to happen.
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
_GUIDE = "docs.nvidia.com/datacenter/tesla/driver-installation-guide"
_GCP = "GoogleCloudPlatform/compute-gpu-installation, config.py and installers"

OPEN, CLOSED = "open", "closed"
ARCHIVE, CUDA_REPOSITORY = "archive", "cuda_repository"
COMPUTE, DESKTOP = "compute", "desktop"

# --- generations and chips -------------------------------------------------------------------------------------------


class Generation(t.NamedTuple):
    """What all cards of a generation have in common. None as the highest stands for: not ended.

    *lowest_cuda* is the first toolkit that compiles for the generation, None where every toolkit below does. Of a generation
    the first capability counts, since its code runs on the later ones of its number: that of 10.0 on 10.3, of 12.0 on 12.1.
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
    """A CUDA toolkit. *driver* is the first with every feature; with *minimum* it runs, but PTX that a program brings
    along cannot be compiled, and features that need the newer driver fail (minor-version compatibility)."""

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

# --- where packages come from ----------------------------------------------------------------------------------------


class Archive(t.NamedTuple):
    """A distribution's own NVIDIA packages: the branches it has, the module flavours of each, and its components."""

    distribution: str
    version: str
    branches: dict[int, tuple[str, ...]]
    components: tuple[str, ...]
    source: str


ARCHIVES: tuple[Archive, ...] = (
    Archive(
        "Debian",
        "12",
        # The security suite's libraries (535.309.01) have only the closed module beside them: the open one stayed at 535.261.03,
        # and apt finds no set of packages with it. The security suite needs non-free-firmware, or the closed one fails too.
        {535: (CLOSED,)},
        ("contrib", "non-free", "non-free-firmware"),
        "measured 2026-11-21: apt-get -s install with bookworm and bookworm-security",
    ),
    Archive(
        "Debian",
        "13",
        {550: (OPEN, CLOSED)},
        ("contrib", "non-free", "non-free-firmware"),
        "measured 2026-11-21: apt-cache policy with trixie (550.163.01-2), -security and -backports (550.163.01-4~bpo13+1)",
    ),
    Archive(
        "Ubuntu",
        "22.04",
        {535: (OPEN, CLOSED), 570: (OPEN, CLOSED), 580: (OPEN, CLOSED)},
        ("restricted", "multiverse"),
        "packages.ubuntu.com (linux-modules-nvidia-*-generic, jammy-updates); 550 is transitional to 570; 535 unverified",
    ),
    Archive(
        "Ubuntu",
        "24.04",
        {535: (OPEN, CLOSED), 570: (OPEN, CLOSED), 580: (OPEN, CLOSED), 595: (OPEN, CLOSED)},
        ("restricted", "multiverse"),
        "packages.ubuntu.com (linux-modules-nvidia-*-generic, noble-updates); 590 is transitional to 595; 535 unverified",
    ),
    Archive(
        "Ubuntu",
        "26.04",
        {580: (OPEN, CLOSED), 595: (OPEN, CLOSED)},
        ("restricted", "multiverse"),
        "packages.ubuntu.com (linux-modules-nvidia-580-open-generic 7.0.0-30.30 in resolute-updates; 590 depends on 595)",
    ),
)


class CudaRepository(t.NamedTuple):
    """NVIDIA's CUDA repository for a distribution.

    *keyring_sha256* is of the keyring package, which has the same name and other content for each of *architectures*. One that
    nobody trustworthy states is left out: then the user has to give it.
    """

    distribution: str
    version: str
    directory: str
    key: str
    keyring_sha256: dict[str, str]
    architectures: dict[str, str]
    lowest_branch: int
    source: str


# What the signed Release files say of themselves: Origin of the archives, Label of NVIDIA's.
ARCHIVE_ORIGINS = frozenset({"Debian", "Debian Backports", "Ubuntu"})
CUDA_REPOSITORY_LABEL = "NVIDIA CUDA"
RELEASES_SOURCE = (
    "apt-cache policy of bookworm (measured 2026-11-22); NVIDIA's own /etc/apt/preferences.d/cuda-repository-pin-600"
)

CUDA_REPOSITORY_URL = "https://developer.download.nvidia.com/compute/cuda/repos"
CUDA_KEYRING_PACKAGE = "cuda-keyring_1.1-1_all.deb"
CUDA_KEYRING_SOURCE = _GCP + "; 1.0-1 is not there for ubuntu2404 (NVIDIA/ansible-role-nvidia-driver#88)"
_BOTH = {"x86_64": "x86_64", "aarch64": "sbsa"}
_VAKT = "Vaktex/vakt, install.sh"

CUDA_REPOSITORIES: tuple[CudaRepository, ...] = (
    CudaRepository(
        "Debian",
        "12",
        "debian12",
        "3bf863cc",
        {"x86_64": "e7f219eab6fe4819cdb5c15b98233dc3420302d9c00883219cd3d896857cf48d"},
        {"x86_64": "x86_64"},
        535,
        f"{_GCP}; {_VAKT}; lowest branch unverified",
    ),
    CudaRepository(
        "Debian",
        "13",
        "debian13",
        "8793F200",
        {"x86_64": "dd28f1f6ba0038180d6b23f846cefca1e3de4c9327751665241370bacea452a1"},
        _BOTH,
        580,
        _GCP + "; lowest branch and sbsa unverified",
    ),
    CudaRepository(
        "Ubuntu",
        "22.04",
        "ubuntu2204",
        "3bf863cc",
        {
            "x86_64": "d93190d50b98ad4699ff40f4f7af50f16a76dac3bb8da1eaaf366d47898ff8df",
            "sbsa": "36d1aed84dfcf93ee9a0212d149f1c4187db92e03ab96a759ec0689aa438fd9e",
        },
        _BOTH,
        535,
        f"{_GCP}; {_VAKT}, alone for sbsa; lowest branch unverified",
    ),
    CudaRepository(
        "Ubuntu",
        "24.04",
        "ubuntu2404",
        "3bf863cc",
        {
            "x86_64": "d2a6b11c096396d868758b86dab1823b25e14d70333f1dfa74da5ddaf6a06dba",
            "sbsa": "6ea7d2737648936820e85677177957a0f6521b840d98eb0bbae0a4f003fa7249",
        },
        _BOTH,
        550,
        f"{_GCP}; {_VAKT}; sbsa also in other installers; lowest branch unverified",
    ),
    CudaRepository(
        "Ubuntu",
        "26.04",
        "ubuntu2604",
        "60DF8A40",
        {"x86_64": "f7f474b5f6a4adf987aa587920df00e713285958ef6a913dda1945a544a3099e"},
        _BOTH,
        595,
        _GCP + "; also in other installers; lowest branch unverified",
    ),
)

# sqv (apt 3: Debian 13, Ubuntu 26.04) refuses this key since 2026-02-01 for its SHA1 self-binding.
REFUSED_KEYS = frozenset({"3bf863cc"})
REFUSED_KEYS_SOURCE = "NVIDIA/cuda-repo-management#30 #34 #39"


class DefaultSource(t.NamedTuple):
    """Where a driver comes from when nobody says."""

    distribution: str
    sources: tuple[str, ...]
    source: str


DEFAULT_SOURCES: tuple[DefaultSource, ...] = (
    DefaultSource(
        "Ubuntu", (ARCHIVE, CUDA_REPOSITORY), "rule: the archive has signed modules, so Secure Boot needs no console"
    ),
    DefaultSource(
        "Debian",
        (CUDA_REPOSITORY, ARCHIVE),
        "rule: the archives' branches 535 and 550 have ended, and 550 does not build",
    ),
)

# --- package names ---------------------------------------------------------------------------------------------------


class PackageSet(t.NamedTuple):
    """What to install for a source, scope and flavour, from a branch on.

    In the names {branch} is the branch, {server} is "-server" where the machine has NVSwitch, else nothing. *pinning* is
    what keeps apt on the branch; *prebuilt* is a module for the kernel's flavour {kernel}, *dkms* what builds
    one when there is none (empty: *packages* bring it themselves).
    """

    source: str
    distribution: str
    lowest_branch: int
    scope: str
    modules: str
    packages: tuple[str, ...]
    dkms: tuple[str, ...]
    prebuilt: tuple[str, ...]
    pinning: tuple[str, ...]
    evidence: str


_DEBIAN_ARCHIVE = "measured 2026-11-21: apt-get -s install in bookworm (closed) and trixie (both) finds all of them; compute brings no X"
_UBUNTU_ARCHIVE = "ubuntu-server docs, how-to/graphics/install-nvidia-drivers.md; not run"
_PIN = ("nvidia-driver-pinning-{branch}",)
_NO_DESKTOP = ("libcuda1", "nvidia-smi", "libnvidia-cfg1", "nvidia-persistenced")

PACKAGE_SETS: tuple[PackageSet, ...] = (
    PackageSet(ARCHIVE, "Debian", 0, COMPUTE, CLOSED, _NO_DESKTOP, ("nvidia-kernel-dkms",), (), (), _DEBIAN_ARCHIVE),
    PackageSet(ARCHIVE, "Debian", 0, COMPUTE, OPEN, _NO_DESKTOP, ("nvidia-open-kernel-dkms",), (), (), _DEBIAN_ARCHIVE),
    PackageSet(
        ARCHIVE,
        "Debian",
        0,
        DESKTOP,
        CLOSED,
        ("nvidia-driver", *_NO_DESKTOP),
        ("nvidia-kernel-dkms",),
        (),
        (),
        _DEBIAN_ARCHIVE,
    ),
    PackageSet(
        ARCHIVE,
        "Debian",
        0,
        DESKTOP,
        OPEN,
        ("nvidia-driver", *_NO_DESKTOP),
        ("nvidia-open-kernel-dkms",),
        (),
        (),
        _DEBIAN_ARCHIVE,
    ),
    PackageSet(
        CUDA_REPOSITORY,
        "Debian",
        0,
        COMPUTE,
        CLOSED,
        ("nvidia-driver-cuda",),
        ("nvidia-kernel-dkms",),
        (),
        _PIN,
        _GUIDE + "/debian.html",
    ),
    PackageSet(
        CUDA_REPOSITORY,
        "Debian",
        0,
        COMPUTE,
        OPEN,
        ("nvidia-driver-cuda",),
        ("nvidia-kernel-open-dkms",),
        (),
        _PIN,
        _GUIDE + "/debian.html",
    ),
    PackageSet(
        CUDA_REPOSITORY,
        "Debian",
        0,
        DESKTOP,
        CLOSED,
        ("cuda-drivers",),
        ("nvidia-kernel-dkms",),
        (),
        _PIN,
        _GUIDE + "/debian.html",
    ),
    PackageSet(
        CUDA_REPOSITORY,
        "Debian",
        0,
        DESKTOP,
        OPEN,
        ("nvidia-open",),
        ("nvidia-kernel-open-dkms",),
        (),
        _PIN,
        _GUIDE + "/debian.html",
    ),
    PackageSet(
        CUDA_REPOSITORY,
        "Ubuntu",
        0,
        COMPUTE,
        CLOSED,
        ("nvidia-headless-no-dkms-{branch}", "nvidia-utils-{branch}"),
        ("nvidia-dkms-{branch}",),
        (),
        _PIN,
        _GUIDE + "/ubuntu.html; headless and utils unverified",
    ),
    PackageSet(
        CUDA_REPOSITORY,
        "Ubuntu",
        0,
        COMPUTE,
        OPEN,
        ("nvidia-headless-no-dkms-{branch}-open", "nvidia-utils-{branch}"),
        ("nvidia-dkms-{branch}-open",),
        (),
        _PIN,
        _GUIDE + "/ubuntu.html; headless and utils unverified",
    ),
    PackageSet(
        CUDA_REPOSITORY,
        "Ubuntu",
        0,
        DESKTOP,
        CLOSED,
        ("cuda-drivers-{branch}",),
        ("nvidia-dkms-{branch}",),
        (),
        _PIN,
        _GUIDE + "/ubuntu.html",
    ),
    PackageSet(
        CUDA_REPOSITORY,
        "Ubuntu",
        0,
        DESKTOP,
        OPEN,
        ("nvidia-open-{branch}",),
        ("nvidia-dkms-{branch}-open",),
        (),
        _PIN,
        _GUIDE + "/ubuntu.html",
    ),
    PackageSet(
        CUDA_REPOSITORY,
        "Ubuntu",
        590,
        COMPUTE,
        CLOSED,
        ("nvidia-headless-no-dkms",),
        ("nvidia-dkms",),
        (),
        _PIN,
        "NVIDIA/gpu-driver-container ubuntu26.04/install.sh",
    ),
    PackageSet(
        CUDA_REPOSITORY,
        "Ubuntu",
        590,
        COMPUTE,
        OPEN,
        ("nvidia-headless-no-dkms-open",),
        ("nvidia-dkms-open",),
        (),
        _PIN,
        "NVIDIA/gpu-driver-container ubuntu26.04/install.sh",
    ),
    PackageSet(
        CUDA_REPOSITORY,
        "Ubuntu",
        590,
        DESKTOP,
        CLOSED,
        ("cuda-drivers",),
        ("nvidia-dkms",),
        (),
        _PIN,
        _GUIDE + "/recent-updates.html",
    ),
    PackageSet(
        CUDA_REPOSITORY,
        "Ubuntu",
        590,
        DESKTOP,
        OPEN,
        ("nvidia-open",),
        ("nvidia-dkms-open",),
        (),
        _PIN,
        _GUIDE + "/recent-updates.html",
    ),
    PackageSet(
        ARCHIVE,
        "Ubuntu",
        0,
        COMPUTE,
        CLOSED,
        ("nvidia-headless-no-dkms-{branch}{server}", "nvidia-utils-{branch}{server}"),
        ("nvidia-dkms-{branch}{server}",),
        ("linux-modules-nvidia-{branch}{server}-{kernel}",),
        (),
        _UBUNTU_ARCHIVE,
    ),
    PackageSet(
        ARCHIVE,
        "Ubuntu",
        0,
        COMPUTE,
        OPEN,
        ("nvidia-headless-no-dkms-{branch}{server}-open", "nvidia-utils-{branch}{server}"),
        ("nvidia-dkms-{branch}{server}-open",),
        ("linux-modules-nvidia-{branch}{server}-open-{kernel}",),
        (),
        _UBUNTU_ARCHIVE,
    ),
    PackageSet(
        ARCHIVE,
        "Ubuntu",
        0,
        DESKTOP,
        CLOSED,
        ("nvidia-driver-{branch}{server}",),
        ("nvidia-dkms-{branch}{server}",),
        ("linux-modules-nvidia-{branch}{server}-{kernel}",),
        (),
        _UBUNTU_ARCHIVE,
    ),
    PackageSet(
        ARCHIVE,
        "Ubuntu",
        0,
        DESKTOP,
        OPEN,
        ("nvidia-driver-{branch}{server}-open",),
        ("nvidia-dkms-{branch}{server}-open",),
        ("linux-modules-nvidia-{branch}{server}-open-{kernel}",),
        (),
        _UBUNTU_ARCHIVE,
    ),
)


class FabricManager(t.NamedTuple):
    """The package that starts NVSwitch; its version must equal the driver's."""

    source: str
    distribution: str
    lowest_branch: int
    package: str
    evidence: str


# Debian's archive has none (measured: no such name in bookworm and trixie).
FABRIC_MANAGERS: tuple[FabricManager, ...] = (
    FabricManager(ARCHIVE, "Ubuntu", 0, "nvidia-fabricmanager-{branch}", "unverified: matches the -server drivers"),
    FabricManager(
        CUDA_REPOSITORY, "Ubuntu", 0, "nvidia-fabricmanager-{branch}", "NVIDIA/cloud-native-stack, nvidia-driver.yaml"
    ),
    FabricManager(
        CUDA_REPOSITORY, "Ubuntu", 580, "nvidia-fabricmanager", "NVIDIA/cloud-native-stack, nvidia-driver.yaml"
    ),
    FabricManager(CUDA_REPOSITORY, "Debian", 0, "nvidia-fabricmanager-{branch}", "unverified: as Ubuntu"),
    FabricManager(CUDA_REPOSITORY, "Debian", 580, "nvidia-fabricmanager", "unverified: as Ubuntu"),
)

# Names of packages that belong to a driver, and of those that look like it and do not: they outlive a change of driver.
DRIVER_PACKAGES = (
    r"(lib)?nvidia-.*|libcuda1|libcudadebugger1|libnvcuvid1|libnvoptix1|libnvsdm.*|lib(egl|gles|glx)-nvidia.*|libgl1-nvidia.*"
    r"|xserver-xorg-video-nvidia.*|cuda-drivers.*|firmware-nvidia.*|linux-(modules|objects|signatures)-nvidia-.*"
)
NOT_DRIVER_PACKAGES = (
    r"(lib)?nvidia-container.*|nvidia-cuda-(?!mps$).*|libnvidia-ml-dev|nvidia-(visual-)?profiler|nvidia-opencl-dev"
    r"|nvidia-cudnn.*|nvidia-cg-.*|nvidia-docker.*|nvidia-driver-pinning-.*|nvidia-openjdk-.*"
    r"|nvidia-settings|nvidia-mig-manager|nvidia-detect|nvidia-installer-cleanup|nvidia-fs.*|nvidia-gds.*"
)
# Packages of the driver that the archive has in versions of their own: trixie's nvidia-modprobe is 570.133.07, its driver 550.163.01.
ARCHIVE_TOOLS = r"nvidia-(modprobe|persistenced|xconfig)"
ARCHIVE_TOOLS_SOURCE = "apt-cache policy of bookworm and trixie, contrib (measured 2026-11-21)"
DRIVER_PACKAGES_SOURCE = (
    "Package and Source fields of bookworm and trixie (measured 2026-11-22); Ubuntu and CUDA names: " + _GUIDE
)

# What keeps the GPU open and is no program of a user, by the 15 characters that the kernel keeps of a name: it stops with its
# package, or sees the new driver after the next boot.
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

# --- Secure Boot -----------------------------------------------------------------------------------------------------


class MokKey(t.NamedTuple):
    """The key with which DKMS signs modules: both files, the certificate in DER."""

    distribution: str
    private: str
    certificate: str
    source: str


MOK_KEYS: tuple[MokKey, ...] = (
    MokKey("Debian", "/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub", "dkms 3, /etc/dkms/framework.conf; " + _GCP),
    MokKey(
        "Ubuntu", "/var/lib/shim-signed/mok/MOK.priv", "/var/lib/shim-signed/mok/MOK.der", "ubuntu shim-signed; " + _GCP
    ),
)

# Room for a driver, its build and the packages' archives, in bytes.
FREE_BYTES = 10 * 1024**3
FREE_BYTES_SOURCE = "issue 4"

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sources of drivers and CUDA: archives, NVIDIA's repositories, package names and signing keys.

As in ``catalogue``, every fact names its source.
"""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.catalogue import (
    ARCHIVE,
    CLOSED,
    COMPUTE,
    CUDA_REPOSITORY,
    DESKTOP,
    OPEN,
)

_GUIDE = "docs.nvidia.com/datacenter/tesla/driver-installation-guide"
_GCP = "GoogleCloudPlatform/compute-gpu-installation, config.py and installers"


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
        # With the security suite's libraries (535.309.01) there is only the closed module: the open one stayed at 535.261.03,
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

    *keyring_sha256* is of the keyring package, which has the same name and other content for each of *architectures*. A checksum without a
    trustworthy source is left out: then the user has to set it.
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
    """The source of a driver if the user names none."""

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
    """The packages to install for a source, scope and kind of modules, from a branch on.

    In the names {branch} is the branch, {server} is "-server" if the machine has NVSwitch, otherwise nothing. *pinning* keeps
    apt on the branch. *prebuilt* is a module for the kernel's flavour {kernel}. *dkms* builds one if there is none (empty:
    *packages* do so themselves).
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


class _Names(t.NamedTuple):
    """The packages of one flavour of the modules."""

    packages: tuple[str, ...]
    dkms: tuple[str, ...]
    prebuilt: tuple[str, ...] = ()


def _flavours(
    source: str,
    distribution: str,
    lowest_branch: int,
    scope: str,
    evidence: str,
    *,
    closed: _Names,
    open_: _Names,
    pinning: tuple[str, ...] = (),
) -> tuple[PackageSet, ...]:
    """Return the sets of both flavours of the modules."""
    return tuple(
        PackageSet(source, distribution, lowest_branch, scope, modules, *names, pinning, evidence)
        for modules, names in ((CLOSED, closed), (OPEN, open_))
    )


PACKAGE_SETS: tuple[PackageSet, ...] = (
    *_flavours(
        ARCHIVE,
        "Debian",
        0,
        COMPUTE,
        _DEBIAN_ARCHIVE,
        closed=_Names(_NO_DESKTOP, ("nvidia-kernel-dkms",)),
        open_=_Names(_NO_DESKTOP, ("nvidia-open-kernel-dkms",)),
    ),
    *_flavours(
        ARCHIVE,
        "Debian",
        0,
        DESKTOP,
        _DEBIAN_ARCHIVE,
        closed=_Names(("nvidia-driver", *_NO_DESKTOP), ("nvidia-kernel-dkms",)),
        open_=_Names(("nvidia-driver", *_NO_DESKTOP), ("nvidia-open-kernel-dkms",)),
    ),
    *_flavours(
        CUDA_REPOSITORY,
        "Debian",
        0,
        COMPUTE,
        _GUIDE + "/debian.html",
        closed=_Names(("nvidia-driver-cuda",), ("nvidia-kernel-dkms",)),
        open_=_Names(("nvidia-driver-cuda",), ("nvidia-kernel-open-dkms",)),
        pinning=_PIN,
    ),
    *_flavours(
        CUDA_REPOSITORY,
        "Debian",
        0,
        DESKTOP,
        _GUIDE + "/debian.html",
        closed=_Names(("cuda-drivers",), ("nvidia-kernel-dkms",)),
        open_=_Names(("nvidia-open",), ("nvidia-kernel-open-dkms",)),
        pinning=_PIN,
    ),
    *_flavours(
        CUDA_REPOSITORY,
        "Ubuntu",
        0,
        COMPUTE,
        _GUIDE + "/ubuntu.html; headless and utils unverified",
        closed=_Names(("nvidia-headless-no-dkms-{branch}", "nvidia-utils-{branch}"), ("nvidia-dkms-{branch}",)),
        open_=_Names(
            ("nvidia-headless-no-dkms-{branch}-open", "nvidia-utils-{branch}"), ("nvidia-dkms-{branch}-open",)
        ),
        pinning=_PIN,
    ),
    *_flavours(
        CUDA_REPOSITORY,
        "Ubuntu",
        0,
        DESKTOP,
        _GUIDE + "/ubuntu.html",
        closed=_Names(("cuda-drivers-{branch}",), ("nvidia-dkms-{branch}",)),
        open_=_Names(("nvidia-open-{branch}",), ("nvidia-dkms-{branch}-open",)),
        pinning=_PIN,
    ),
    *_flavours(
        CUDA_REPOSITORY,
        "Ubuntu",
        590,
        COMPUTE,
        "NVIDIA/gpu-driver-container ubuntu26.04/install.sh",
        closed=_Names(("nvidia-headless-no-dkms",), ("nvidia-dkms",)),
        open_=_Names(("nvidia-headless-no-dkms-open",), ("nvidia-dkms-open",)),
        pinning=_PIN,
    ),
    *_flavours(
        CUDA_REPOSITORY,
        "Ubuntu",
        590,
        DESKTOP,
        _GUIDE + "/recent-updates.html",
        closed=_Names(("cuda-drivers",), ("nvidia-dkms",)),
        open_=_Names(("nvidia-open",), ("nvidia-dkms-open",)),
        pinning=_PIN,
    ),
    *_flavours(
        ARCHIVE,
        "Ubuntu",
        0,
        COMPUTE,
        _UBUNTU_ARCHIVE,
        closed=_Names(
            ("nvidia-headless-no-dkms-{branch}{server}", "nvidia-utils-{branch}{server}"),
            ("nvidia-dkms-{branch}{server}",),
            ("linux-modules-nvidia-{branch}{server}-{kernel}",),
        ),
        open_=_Names(
            ("nvidia-headless-no-dkms-{branch}{server}-open", "nvidia-utils-{branch}{server}"),
            ("nvidia-dkms-{branch}{server}-open",),
            ("linux-modules-nvidia-{branch}{server}-open-{kernel}",),
        ),
    ),
    *_flavours(
        ARCHIVE,
        "Ubuntu",
        0,
        DESKTOP,
        _UBUNTU_ARCHIVE,
        closed=_Names(
            ("nvidia-driver-{branch}{server}",),
            ("nvidia-dkms-{branch}{server}",),
            ("linux-modules-nvidia-{branch}{server}-{kernel}",),
        ),
        open_=_Names(
            ("nvidia-driver-{branch}{server}-open",),
            ("nvidia-dkms-{branch}{server}-open",),
            ("linux-modules-nvidia-{branch}{server}-open-{kernel}",),
        ),
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

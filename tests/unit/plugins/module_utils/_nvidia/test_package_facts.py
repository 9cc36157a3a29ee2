# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages, sources and pins, as dpkg and apt have them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.package_facts import (
    origin_of,
    package_source,
    parse_policy,
    parse_sources,
    read_holds,
    read_packages,
    read_unfinished,
    wanted_names,
)

from tests.unit.support.nvidia.roots import Root


def test_library_of_another_architecture_is_a_package_of_its_own(root: Root) -> None:
    def package(name: str, architecture: str, want: str = "install") -> str:
        return f"Package: {name}\nStatus: {want} ok installed\nArchitecture: {architecture}\nVersion: 580.95.05-1\n"

    rows = [package("dpkg", "amd64"), package("libcuda1", "amd64", "hold"), package("libcuda1", "i386")]
    root.write("/var/lib/dpkg/status", "\n".join(rows))
    assert read_packages(root.tree)["libcuda1"]["hold"] is True
    assert read_holds(root.tree) == ["libcuda1"]


def test_unfinished_packages(root: Root) -> None:
    def package(name: str, status: str, architecture: str = "amd64") -> str:
        return f"Package: {name}\nStatus: install ok {status}\nArchitecture: {architecture}\nVersion: 580.95.05-1\n"

    rows = [
        *(package("dpkg", "installed"), package("libcuda1", "unpacked", "i386"), package("gone", "config-files")),
        *(package("nvidia-smi", "installed"), package("libnvidia-ml1", "half-configured")),
    ]
    root.write("/var/lib/dpkg/status", "\n".join(rows))
    assert read_unfinished(root.tree) == ["libcuda1:i386", "libnvidia-ml1"]

    # The journal of a dpkg that was killed has the last word, and has to be merged.
    root.write("/var/lib/dpkg/updates/0000", package("nvidia-smi", "half-installed"))
    root.write("/var/lib/dpkg/updates/0001", package("nvidia-smi", "unpacked"))
    root.write("/var/lib/dpkg/updates/0002", package("libnvidia-ml1", "installed"))
    root.write("/var/lib/dpkg/updates/tmp.i", "Package: #padding\n")
    assert read_unfinished(root.tree) == ["libcuda1:i386", "libnvidia-ml1", "nvidia-smi"]
    assert read_packages(root.tree)["nvidia-smi"]["status"] == "unpacked"
    assert read_packages(root.tree)["libnvidia-ml1"]["status"] == "installed"


POLICY = """\
nvidia-driver:
  Installed: (none)
  Candidate: 535.309.01-0+deb12u1
  Version table:
     580.95.05-1 600
        600 https://mirror.example/compute/cuda/repos/debian12/x86_64  Packages
     570.1.1-1 500
        500 https://ppa.example/graphics-drivers/ppa/ubuntu noble/main amd64 Packages
     535.309.01-0+deb12u1 500
        500 http://mirror.example/debian-security noble-security/non-free amd64 Packages
        100 /var/lib/dpkg/status
nvidia-old:
  Version table:
 *** 1.0-1 100
        100 /var/lib/dpkg/status
"""


SOURCES = """\
Package files:
 100 /var/lib/dpkg/status
     release a=now
 600 https://mirror.example/nvidia/debian12/x86_64  Packages
     release o=NVIDIA,l=NVIDIA CUDA,c=,b=amd64
     origin mirror.example
 500 http://mirror.example/debian stable/non-free amd64 Packages
     release v=12.15,o=Debian,a=stable,n=bookworm,l=Debian,c=non-free,b=amd64
 500 http://mirror.example/debian bookworm-backports/non-free amd64 Packages
     release o=Debian Backports,a=stable-backports,n=bookworm-backports,l=Debian Backports,c=non-free,b=amd64
 500 http://mirror.example/debian trixie/non-free amd64 Packages
     release v=13.1,o=Debian,a=testing,n=trixie,l=Debian,c=non-free,b=amd64
 500 https://ppa.example/ubuntu bookworm/main amd64 Packages
     release v=12,o=LP-PPA-graphics-drivers,a=bookworm,n=bookworm,l=Proprietary GPU Drivers,c=main,b=amd64
 500 https://unsigned.example/compute/cuda/repos/debian12/x86_64  Packages
     origin unsigned.example
Pinned packages:
"""


def test_a_source_is_identified_by_its_release_file() -> None:
    assert parse_sources(SOURCES, "bookworm") == {
        "https://mirror.example/nvidia/debian12/x86_64": "cuda_repository",
        "http://mirror.example/debian stable/non-free amd64": "archive",
        "http://mirror.example/debian bookworm-backports/non-free amd64": "archive",
        # That of another release is not the system's own.
        "http://mirror.example/debian trixie/non-free amd64": "other",
        "https://ppa.example/ubuntu bookworm/main amd64": "other",
    }


def test_policy_of_apt() -> None:
    sources = {
        "https://mirror.example/compute/cuda/repos/debian12/x86_64": "cuda_repository",
        "http://mirror.example/debian-security noble-security/non-free amd64": "archive",
    }
    assert parse_policy(POLICY, sources) == {
        "nvidia-driver": [
            {"version": "580.95.05-1", "origins": ["cuda_repository"]},
            {"version": "570.1.1-1", "origins": ["other"]},
            {"version": "535.309.01-0+deb12u1", "origins": ["archive"]},
        ],
        "nvidia-old": [],
    }


@pytest.mark.parametrize(
    ("version", "offered", "origin"),
    [
        ("2", [{"version": "2", "origins": ["archive"]}, {"version": "3", "origins": ["other"]}], "archive"),
        ("1", [{"version": "2", "origins": ["archive"]}], "archive"),
        ("1", [{"version": "2", "origins": ["archive"]}, {"version": "3", "origins": ["other"]}], "unknown"),
        ("1", [], "unknown"),
        # Who has the name has not had this driver.
        ("580.95.05-1", [{"version": "535.309.01-1", "origins": ["archive"]}], "unknown"),
    ],
)
def test_origin_of_an_installed_version(version: str, offered: list[dict[str, Any]], origin: str) -> None:
    assert origin_of(version, offered) == origin


@pytest.mark.parametrize(
    ("pin", "source"),
    [
        (("src:*nvidia*:any src:cuda-drivers:any", "release l=NVIDIA CUDA", -1), "archive"),
        (("src:*nvidia*:any src:cuda-drivers:any", "version 580.*", 1000), "cuda_repository"),
        # That of the keyring package says nothing of the driver.
        (("*", "release l=NVIDIA CUDA", 600), "unknown"),
    ],
)
def test_pins_identify_a_driver_without_source(pin: tuple[str, str, int], source: str) -> None:
    packages = {"libcuda1": {"version": "580.95.05-1", "origin": "unknown"}}
    pins = [dict(zip(("packages", "pin", "priority"), pin, strict=True))]
    assert package_source(packages, pins, run_installed=False, library="") == source


def test_apt_is_queried_for_all_packages_of_a_plan() -> None:
    names = wanted_names(
        {"distribution": "Ubuntu"}, ["linux-image-generic-hwe-24.04", "nvidia-utils-570"], ["6.8.0-60-generic"]
    )
    assert {
        "linux-modules-nvidia-580-open-generic-hwe-24.04",
        "nvidia-driver-595-open",
        "nvidia-driver-pinning-580",
        "linux-headers-6.8.0-60-generic",
        "nvidia-utils-570",
        "linux-headers-generic-hwe-24.04",
    } <= set(names)

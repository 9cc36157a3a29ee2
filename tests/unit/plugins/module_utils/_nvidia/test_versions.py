# SPDX-License-Identifier: GPL-3.0-or-later
"""Order of versions, and packages that belong to a driver."""

from __future__ import annotations

from itertools import pairwise

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import (
    branch_of,
    driver_version,
    is_driver_package,
    version_key,
)


@pytest.mark.parametrize(
    "in_order",
    [
        ["6.12.96+deb13-amd64", "6.12.107+deb13-amd64", "6.13"],
        ["6.1.0-9-amd64", "6.1.0-37-amd64"],
        ["6.12~rc6", "6.12", "6.12.1"],
        ["550.163.01", "580", "580.65.06", "580.126.09"],
    ],
)
def test_order_of_versions(in_order: list[str]) -> None:
    assert all(version_key(lower) < version_key(higher) for lower, higher in pairwise(in_order))


@pytest.mark.parametrize(
    ("version", "driver"),
    [
        ("580.159.04-1", "580.159.04"),
        ("535.309.01-0+deb12u1", "535.309.01"),
        ("1:575.64-0ubuntu1", "575.64"),
        ("5.15.0-152.162+1", ""),
        ("20151021+13", ""),
        ("1.18.0-1", ""),
    ],
)
def test_driver_in_the_version_of_a_package(version: str, driver: str) -> None:
    assert driver_version(version) == driver
    assert branch_of(version) == int(driver[:3] or 0)


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

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Versions of drivers, kernels and packages, and the names of packages that belong to a driver."""

from __future__ import annotations

import functools
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import package_catalogue as package_data

_DRIVER_VERSION = re.compile(r"(?:\d+:)?(\d{3}(?:\.\d{2,3}){1,2})(?![\d.])")


Facts = dict[str, t.Any]


@functools.cache
def version_key(version: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key for versions of kernels, drivers and packages. A tilde sorts before the end, as in dpkg."""
    parts = re.findall(r"\d+|~|[A-Za-z]+", version)
    return (
        *((2, int(part), "") if part.isdigit() else (0 if part == "~" else 1, 0, part) for part in parts),
        (1, 0, ""),
    )


def driver_version(version: str) -> str:
    """Return the driver's version in that of a package, 580.95.05 in ``580.95.05-1``, empty for a package that follows no driver."""
    found = _DRIVER_VERSION.match(version)
    return found.group(1) if found else ""


def branch_of(version: str) -> int:
    """Return the branch in a package's version, 0 for a package that follows no driver."""
    return int(driver_version(version).partition(".")[0] or 0)


def is_driver_package(name: str) -> bool:
    return bool(re.fullmatch(package_data.DRIVER_PACKAGES, name)) and not re.fullmatch(
        package_data.NOT_DRIVER_PACKAGES, name
    )


def is_on_branch(name: str, version: str, branch: int, origins: t.Collection[str]) -> bool:
    """Return whether a version of a package, which *origins* have, goes with this branch of the driver."""
    has_own_versions = data.ARCHIVE in origins and re.fullmatch(package_data.ARCHIVE_TOOLS, name)
    return branch_of(version) in (0, branch) or bool(has_own_versions)


def is_driver(name: str) -> bool:
    """Return whether a package, as ``Dpkg.packages`` names it, is the driver's, for any architecture."""
    return is_driver_package(bare_name(name))


def is_own(name: str) -> bool:
    """Return whether a package belongs to the driver, or pins it to its branch."""
    return is_driver(name) or name.startswith("nvidia-driver-pinning-")


def bare_name(name: str) -> str:
    return name.partition(":")[0]

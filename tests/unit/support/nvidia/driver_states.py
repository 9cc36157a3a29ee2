# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded hosts as the plan of a driver reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, Problem
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_state import DriverState

OLD, NEW = "580.159.04", "590.48.01"


PARAMS: Any = {
    "branch": "auto",
    "upgrade": False,
    "interrupt": False,
    "ignore_build_failures": False,
    "module_options": {},
    "mok_password": "",
    "host_name": "debian12",
}


See = Callable[..., DriverState]


def statuses(rows: list[Finding]) -> dict[str, str]:
    return {row["id"].removeprefix("nvidia_driver."): row["status"] for row in rows}


def unmet(rows: list[Problem]) -> dict[str, str]:
    return {row["variable"]: row["problem"] for row in rows if not row["ok"]}


KERNEL = {"linux-image-amd64": "6.1.150-1", "linux-image-6.1.0-40-amd64": "6.1.150-1"}

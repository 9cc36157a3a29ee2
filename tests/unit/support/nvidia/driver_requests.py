# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts without a driver, and what a plan makes of them."""

from __future__ import annotations

import copy
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import package_catalogue as package_data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_model import Plan
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.gpus import describe_device

from tests.unit.support.nvidia import hosts as gpu_hosts

CARDS = {
    "GTX 780": "1004",
    "GTX 980": "13c0",
    "GTX 1080 Ti": "1b06",
    "V100": "1db6",
    "T4": "1eb8",
    "A100": "20b0",
    "RTX 3090": "2204",
    "RTX 4090": "2684",
    "H100": "2330",
    "B300": "3182",
    "RTX 5090": "2b85",
    "RTX 5050": "2d83",
    "RTX 5060 Ti": "2d04",
    "GB10": "2e12",
    "unknown": "3000",
}


KERNELS = {"Debian 12": "6.1.0-37-amd64", "Debian 13": "6.12.107+deb13-amd64", "Ubuntu": "6.8.0-60-generic"}


UPSTREAM = {"Debian 12": "6.1.140", "Debian 13": "6.12.107", "Ubuntu": "6.8.12"}


CODENAMES = {"12": "bookworm", "13": "trixie", "22.04": "jammy", "24.04": "noble", "26.04": "resolute"}


SYSTEMS = [(row.distribution, row.version) for row in package_data.ARCHIVES]


def make_host(system: str = "Debian 12", cards: tuple[str, ...] = ("RTX 4090",), **changes: Any) -> dict[str, Any]:
    """Return the facts of a host without a driver, as gpu_host_info gives them. *changes* replace some."""
    distribution, version = system.split()
    kind = system if distribution == "Debian" else distribution
    release = KERNELS[kind]
    flavour = "amd64" if distribution == "Debian" else "generic"
    kernel = {
        "release": release,
        "upstream": UPSTREAM[kind],
        "running": True,
        "next": True,
        "headers": True,
        "headers_package": f"linux-headers-{release}",
        "headers_available": True,
        "module": "",
        "dkms": [],
    }
    facts: dict[str, Any] = {
        "month": gpu_hosts.MONTH,
        "system": {"distribution": distribution, "version": version, "codename": CODENAMES[version]},
        "gpus": [
            {"address": f"0000:0{number}:00.0", **describe_device(int(CARDS[card], 16))}
            for number, card in enumerate(cards)
        ],
        "nvswitch": False,
        "driver": {"loaded": "", "modules": "", "libraries": {}, "library": "", "matches": None, "nouveau": False},
        "holders": [],
        "secure_boot": {"state": "disabled", "certificate": "", "enrolled": False, "pending": False},
        "next_kernel": {"release": release, "evidence": "grub.cfg"},
        "kernels": [kernel],
        "packages": {
            f"linux-image-{flavour}": {"version": "1", "hold": False, "status": "installed", "origin": "archive"}
        },
        "package_source": "none",
        "available": {},
        "holds": [],
        "pins": [],
        "repositories": [],
        "run_installer": {"installed": False, "version": "", "paths": []},
        "virtualization": {"kind": "none", "name": ""},
        "desktop": {"display_manager": "", "present": False},
        "free_bytes": {"/": 10**12, "/boot": 10**9, "/usr": 10**12, "/var": 10**12},
    }
    return {**facts, **changes}


def carry_out(host: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """Return the facts of the host once the plan is carried out and the machine has booted."""
    after = copy.deepcopy(host)
    version = plan.version or f"{plan.branch}.65.06"
    for name in plan.remove:
        del after["packages"][name]
    for name in (*plan.pinning, *plan.install):
        prebuilt = name.startswith("linux-")
        entry = {
            "version": "6.8.0-60.63" if prebuilt else f"{version}-1",
            "hold": False,
            "status": "installed",
            "origin": plan.source,
        }
        after["packages"][name] = entry
    for name in plan.hold:
        after["packages"][name]["hold"] = True
    after["holds"] = sorted(plan.hold)
    after["package_source"] = plan.source
    after["driver"] = {
        **after["driver"],
        "loaded": version,
        "library": version,
        "matches": True,
        "nouveau": False,
        "modules": plan.modules,
    }
    after["secure_boot"] = {**after["secure_boot"], "enrolled": True, "pending": False}
    return after


def problems(plan: Plan) -> list[tuple[str, str]]:
    return [(row["variable"], row["problem"]) for row in plan.requirements if not row["ok"]]


def refusal(plan: Plan) -> tuple[str, str, str]:
    """Return variable, problem and remedy of a plan that is refused for one reason."""
    (row,) = [row for row in plan.requirements if not row["ok"]]
    return row["variable"], row["problem"], row["remedy"]

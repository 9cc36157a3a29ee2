# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check a request for a driver and the driver that was chosen: every reason to refuse them."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_choice import another_driver
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_model import (
    AUTO,
    SOURCES,
    Draft,
    Request,
    build_failure,
    is_device_id,
    toolkit_problem,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.gpus import of_host
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import (
    Facts,
    branch_of,
    is_driver_package,
    version_key,
)


def check_words(draft: Draft) -> bool:
    """Check that the catalogue knows every value of the request."""
    offered = {
        "source": SOURCES,
        "branch": tuple(str(row.number) for row in data.BRANCHES),
        "modules": (data.OPEN, data.CLOSED),
        "scope": (data.COMPUTE, data.DESKTOP),
    }
    valid = [
        draft.plan.require(
            getattr(draft.request, field) in (AUTO, *values),
            f"nvidia_driver_{field}",
            f"is {getattr(draft.request, field)}, which is unknown",
            f"use one of {', '.join((AUTO, *values))}",
        )
        for field, values in offered.items()
    ]
    strange = [repr(gpu) for gpu in draft.request.gpus if not is_device_id(gpu)]
    return all(valid) and draft.plan.require(
        not strange,
        "nvidia_driver_gpus",
        f"has {', '.join(strange)}, which is no PCI device id",
        "give four hexadecimal digits in quotes, as `lspci -n` has them after `10de:`",
    )


def check_cards(draft: Draft) -> bool:
    """Check that there are GPUs, that a maintained driver supports them, and that one driver serves all of them."""
    name, cards = draft.request.host_name, draft.cards
    lowest = min(row.number for row in data.BRANCHES)
    together = " and ".join(cards.names)
    away = ", ".join(gpu["address"] for gpu in draft.host["gpus"] if gpu not in draft.gpus)
    return (
        draft.plan.require(
            bool(cards.generations),
            name,
            "has no NVIDIA GPU" + (f" of its own: {away} is kept for virtual machines" if away else ""),
            "leave the role out, or name the PCI device ids to prepare for in `nvidia_driver_gpus`",
        )
        and draft.plan.require(
            bool(cards.modules),
            name,
            f"has GPUs of {together}, which no kernel module serves together: the open one begins with Turing, "
            "the closed one ends before Blackwell",
            "take one of the cards out, keep one for a virtual machine (vfio-pci), or name in `nvidia_driver_gpus` the PCI device ids"
            f" that the driver is for ({', '.join(gpu['device_id'] for gpu in draft.gpus)} are there): it ignores the others",
        )
        and draft.plan.require(
            cards.highest_branch >= lowest,
            name,
            f"has a GPU of {together}, whose last driver branch is {cards.highest_branch}",
            f"replace the card: drivers from {lowest} on need Maxwell or newer; or name in `nvidia_driver_gpus` the PCI device ids of the"
            " others, and the driver ignores it",
        )
    )


def check_version(draft: Draft) -> None:
    """Check that the release knows every card: a branch learns about cards during its life."""
    plan, lowest = draft.plan, draft.cards.lowest_driver
    plan.require(
        not plan.version or version_key(plan.version) >= version_key(lowest),
        "nvidia_driver_branch",
        f"leads to {plan.version}, but {' and '.join(plan.generations)} here is known from driver {lowest} on",
        "refresh apt's lists, or choose a newer branch",
    )
    unknown = [gpu["device_id"] for gpu in draft.gpus if not gpu["known"]] if not draft.request.gpus else []
    if unknown:
        plan.notes.append(
            f"GPU {', '.join(unknown)} is newer than this collection's data, and planned for as {data.UNKNOWN_CHIP.generation}"
        )


def check_toolkits(draft: Draft) -> None:
    """Check that the driver runs the requested toolkits."""
    driver = draft.plan.version or f"{draft.plan.branch}.9999"
    for version in draft.request.toolkits:
        problem = toolkit_problem(version, driver, draft.plan.generations)
        remedy = f"choose a newer nvidia_driver_branch or one of CUDA {', '.join(_usable_toolkits(draft, driver))}"
        if problem:
            draft.plan.require(False, "nvidia_driver_toolkits", problem, remedy)
        row = next((row for row in data.TOOLKITS if row.version == version), None)
        if row and not problem and version_key(driver) < version_key(row.driver):
            draft.plan.notes.append(
                f"CUDA {version} runs on driver {draft.plan.branch} by minor-version compatibility: PTX cannot be compiled, "
                f"and features that need driver {row.driver} fail"
            )


def _usable_toolkits(draft: Draft, driver: str) -> list[str]:
    return [row.version for row in data.TOOLKITS if not toolkit_problem(row.version, driver, draft.plan.generations)]


def check_kernels(draft: Draft) -> None:
    """Check that DKMS can build the module for the kernel that boots next."""
    if draft.plan.build != "dkms" or not draft.plan.changes:
        return
    for kernel in (kernel for kernel in draft.kernels if kernel["next"]):
        draft.plan.require(
            kernel["headers"] or kernel["headers_available"],
            draft.request.host_name,
            f"has no headers for the kernel {kernel['release']}, and no configured source has {kernel['headers_package']}",
            "install the distribution's current kernel and reboot",
        )
        version = draft.plan.version or str(draft.plan.branch)
        failure = build_failure(version, kernel["upstream"], draft.plan.source, draft.system["distribution"])
        if failure and not draft.request.ignore_build_failures:
            draft.plan.require(
                False,
                "nvidia_driver_branch" if draft.request.branch != AUTO else "nvidia_driver_source",
                f"leads to driver {version} from {draft.plan.source}, which does not build for the kernel"
                f" {kernel['release']}: {failure.reason} ({failure.source})",
                f"use {another_driver(draft)}a kernel before {failure.kernels[0]},"
                " or `nvidia_driver_ignore_build_failures: true` to try it",
            )


def check_host(draft: Draft) -> None:
    """Check that nothing on the host conflicts with the driver or its change."""
    host, plan, name = draft.host, draft.plan, draft.request.host_name
    source = host["package_source"]
    origins: dict[str, list[str]] = {}
    for package, entry in host["packages"].items():
        if is_driver_package(package) and branch_of(entry["version"]):
            origins.setdefault(entry["origin"], []).append(package)
    described = "; ".join(f"{origin}: {', '.join(names)}" for origin, names in sorted(origins.items()))
    plan.require(
        not host["run_installer"]["installed"],
        name,
        f"has driver {host['run_installer']['version'] or 'files'} from a .run file",
        "run `/usr/bin/nvidia-uninstall --silent` first",
    )
    plan.require(
        source != "mixed" or host["run_installer"]["installed"],
        name,
        f"has driver packages of several sources ({described})",
        "purge those of all but one source",
    )
    plan.require(
        source != "other",
        name,
        f"has driver packages that neither the archive nor the CUDA repository has ({described})",
        "run `apt-get update`; if that does not help, purge them and remove their repository",
    )
    plan.require(
        source != "foreign",
        name,
        f"has driver {host['driver']['library']} that no package installed",
        "do not apply the role where a container's host or an image provides the driver, or remove these libraries",
    )
    # The GPUs of an image that is being made are elsewhere. A loaded module was not stopped.
    obstacles_here = host.get("module_obstacles", []) if of_host(host["gpus"]) and not host["driver"]["loaded"] else []
    plan.require(
        not obstacles_here,
        name,
        f"keeps NVIDIA's module from loading: {'; '.join('`{setting}` in {file}'.format(**row) for row in obstacles_here)}",
        "remove it (`prime-select nvidia` or `envycontrol -s nvidia` where that tool has written it; from the kernel's command line by"
        " /etc/default/grub and update-grub), or leave the role out",
    )
    if not plan.changes:
        return
    driver = (package for package in host["packages"] if is_driver_package(package))
    plan.requirements += obstacles(host, draft.request, {*plan.remove, *driver, *plan.install, *plan.pinning})
    broken = sorted(package for package, entry in host["packages"].items() if entry["status"] != "installed")
    if broken:
        plan.notes.append(f"dpkg has not finished {', '.join(broken)}")


def obstacles(host: Facts, request: Request, touched: t.Collection[str]) -> list[Problem]:
    """Return the problems that prevent a change of these packages."""
    name = request.host_name
    held = sorted(
        {package.partition(":")[0] for package in touched}.intersection(host["holds"]).difference(request.own_holds)
    )
    short = sorted(path for path, free in host["free_bytes"].items() if path != "/boot" and free < request.free_bytes)
    found: list[Problem] = [
        {
            "ok": not held,
            "variable": name,
            "problem": f"holds {', '.join(held)}",
            "remedy": f"run `apt-mark unhold {' '.join(held)}` if the hold is no longer wanted",
        },
        {
            "ok": not short,
            "variable": name,
            "problem": f"has less than {request.free_bytes // 1024**3} GiB free on {', '.join(short)}",
            "remedy": "free some room, or set `nvidia_driver_free_bytes`",
        },
    ]
    if any(is_driver_package(package) for package in touched):
        found.append(in_use(host, request.interrupt))
    return [row for row in found if not row["ok"]]


def in_use(host: Facts, interrupt: bool) -> Problem:
    """Return the requirement that no program uses the GPU, so that none loses its driver."""
    users = [row for row in host["holders"] if not row["command"].startswith(data.DAEMONS)]
    shown = ", ".join(f"{row['command']} ({row['pid']}, {row['user']})" for row in users[:5])
    return {
        "ok": not users or interrupt,
        "variable": "nvidia_driver_interrupt",
        "problem": f"is off, and the GPU is in use by {shown}{' and others' if users[5:] else ''}",
        "remedy": "end these programs, or set it to true",
    }

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""List the packages of a chosen driver: what apt installs and removes, and which source they come from."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import package_catalogue as package_data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_model import (
    Draft,
    package_names,
    package_sets,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.kernels import (
    headers_along,
    is_kernel_metapackage,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.package_facts import origins_now
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import (
    Facts,
    branch_of,
    driver_version,
    is_driver_package,
    is_on_branch,
    version_key,
)


def list_packages(draft: Draft) -> None:
    """List what apt installs, removes and pins for the chosen driver."""
    plan, packages = draft.plan, draft.host["packages"]
    row = next(
        row
        for row in package_sets(draft.host, plan.source, plan.branch)
        if (row.scope, row.modules) == (plan.scope, plan.modules)
    )
    plan.preliminary = not any(
        is_driver_package(name) and plan.source in offer["origins"]
        for name, offers in draft.host["available"].items()
        for offer in offers
    )
    wanted = package_names(row.packages, draft.host, plan.branch) + _fabric_manager(draft)
    prebuilt = package_names(row.prebuilt, draft.host, plan.branch)
    dkms = package_names(row.dkms, draft.host, plan.branch)
    has_prebuilt = bool(prebuilt) and all(_candidate(draft, name) or name in packages for name in prebuilt)
    plan.build = "prebuilt" if has_prebuilt else "dkms"
    wanted += prebuilt if has_prebuilt else dkms
    plan.version = driver_version(_candidate(draft, (dkms + wanted)[0]) or _candidate(draft, wanted[0]))
    plan.headers = [] if has_prebuilt else _headers(draft)
    pinning = [name for name in package_names(row.pinning, draft.host, plan.branch) if _is_offered(draft, name)]
    plan.pinning = [name for name in pinning if name not in packages]
    plan.install = [name for name in wanted if not _is_there(draft, name)]
    plan.remove = sorted(name for name in packages if _goes(draft, name, {*wanted, *pinning}))
    plan.changes = bool(plan.pinning or plan.install or plan.remove)
    plan.downgrade = bool(draft.installed.branch > plan.branch and plan.changes)
    if not pinning:
        plan.preferences = preferences(plan.source, plan.branch)
    _describe_source(draft)


def _headers(draft: Draft) -> list[str]:
    """Return the headers that DKMS lacks: of the installed kernels and, if nothing is held, of those that come later."""
    missing = [
        kernel["headers_package"] for kernel in draft.kernels if not kernel["headers"] and kernel["headers_available"]
    ]
    if draft.request.lock:
        return missing
    packages = draft.host["packages"]
    following = sorted({headers_along(name) for name in packages if is_kernel_metapackage(name)})
    return missing + [name for name in following if name not in packages and draft.host["available"].get(name)]


def _is_offered(draft: Draft, name: str) -> bool:
    """Return whether the planned source has a package. If apt does not have its lists yet, assume that it has."""
    offers = draft.host["available"].get(name, [])
    return draft.plan.preliminary or any(draft.plan.source in row["origins"] for row in offers)


def _describe_source(draft: Draft) -> None:
    """Describe the repository or the components that the driver comes from."""
    plan, repository = draft.plan, draft.cuda_repository
    if plan.source == data.CUDA_REPOSITORY and repository:
        configured = [row["directory"] for row in draft.host["repositories"]]
        plan.repository = {
            "url": f"{package_data.CUDA_REPOSITORY_URL}/{repository.directory}",
            "directory": repository.directory,
            "architectures": repository.architectures,
            "keyring": package_data.CUDA_KEYRING_PACKAGE,
            "keyring_sha256": repository.keyring_sha256,
            "key": repository.key,
            "configured": repository.directory in configured,
        }
        foreign = sorted({name for name in configured if name != repository.directory})
        draft.plan.require(
            not foreign,
            draft.request.host_name,
            f"has the CUDA repository of {', '.join(foreign)}",
            f"remove {', '.join(row['file'] for row in draft.host['repositories'] if row['directory'] in foreign)}",
        )
    else:
        plan.components = [
            name
            for row in package_data.ARCHIVES
            if (row.distribution, row.version) == (draft.system["distribution"], draft.system["version"])
            for name in row.components
        ]


def _fabric_manager(draft: Draft) -> list[str]:
    """Return the fabric manager that NVSwitch needs."""
    rows = [
        row
        for row in package_data.FABRIC_MANAGERS
        if (row.source, row.distribution) == (draft.plan.source, draft.system["distribution"])
        and row.lowest_branch <= draft.plan.branch
    ]
    if not draft.host["nvswitch"]:
        return []
    draft.plan.require(
        bool(rows),
        "nvidia_driver_source",
        f"is {draft.plan.source}, which has no fabric manager, and this machine has NVSwitch",
        f"use {data.CUDA_REPOSITORY}",
    )
    return [max(rows, key=lambda row: row.lowest_branch).package.format(branch=draft.plan.branch)] if rows else []


def _candidate(draft: Draft, name: str) -> str:
    """Return the newest version of a package that the planned source has on the planned branch."""
    versions = [
        row["version"]
        for row in draft.host["available"].get(name, [])
        if draft.plan.source in row["origins"]
        and is_on_branch(name, row["version"], draft.plan.branch, {draft.plan.source})
    ]
    return max(versions, key=version_key, default="")


def _is_there(draft: Draft, name: str) -> bool:
    """Return whether a package is installed whole, on the planned branch and from the planned source as far as its version shows."""
    entry = draft.host["packages"].get(name)
    return bool(
        entry
        and entry["status"] == "installed"
        and is_on_branch(name, entry["version"], draft.plan.branch, origins_now(draft.host, name))
        and _is_of_source(draft, entry)
    )


def _is_of_source(draft: Draft, entry: Facts) -> bool:
    """Return whether a package is of the planned source. One without any source counts, unless the driver has another source."""
    unknown = entry["origin"] == "unknown" and draft.installed.source in ("", draft.plan.source)
    return unknown or bool(entry["origin"] == draft.plan.source)


def _goes(draft: Draft, name: str, wanted: t.AbstractSet[str]) -> bool:
    """Return whether an installed package has to go: another branch, modules or source, and not offered by the planned one."""
    if name in wanted:
        return False
    if re.fullmatch(r"nvidia-driver-pinning-.*", name):
        return True
    if not is_driver_package(name):
        return False
    entry, plan = draft.host["packages"][name], draft.plan
    if name in _other_flavour(draft, wanted):
        return True
    named = re.search(r"-(\d{3})(?=-|$)", name)
    if named and int(named.group(1)) != plan.branch:
        return True
    branch = branch_of(entry["version"])
    if not branch or (branch == plan.branch and _is_of_source(draft, entry)):
        return False
    return not _candidate(draft, name)


def _other_flavour(draft: Draft, wanted: t.AbstractSet[str]) -> set[str]:
    """Return the names that only the other kind of modules would install."""
    named: dict[str, set[str]] = {data.OPEN: set(), data.CLOSED: set()}
    for row in package_sets(draft.host, draft.plan.source, draft.plan.branch):
        named[row.modules].update(
            package_names((*row.packages, *row.dkms, *row.prebuilt), draft.host, draft.plan.branch)
        )
    planned = named.pop(draft.plan.modules)
    return set().union(*named.values()) - planned - wanted


def preferences(source: str, branch: int) -> str:
    """Return preferences of apt that keep the driver on its branch and drivers of other sources away. CUDA toolkits stay free."""
    if source == data.ARCHIVE:
        return (
            "# The driver comes from the distribution's archive: NVIDIA's repository may bring CUDA, but no driver.\n"
            "Package: src:*nvidia*:any src:cuda-drivers:any\n"
            "Pin: release l=NVIDIA CUDA\n"
            "Pin-Priority: -1\n"
        )
    return (
        f"# The driver stays on its branch, as with nvidia-driver-pinning-{branch}.\n"
        "Package: src:*nvidia*:any src:cuda-drivers:any\n"
        f"Pin: version {branch}.*\n"
        "Pin-Priority: 1000\n"
    )

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the driver of a host, and carry the plan out: what nvidia_driver_plan, nvidia_driver_verify and nvidia_driver_packages run."""

from __future__ import annotations

import dataclasses
import platform
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_due import is_due
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, Problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import (
    DirectoryRow,
    FileRow,
    JsonObject,
    UnitRow,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import cuda_repository
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_facts import repository_at
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_change import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_checks import in_use
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_facts import (
    components_source,
    initramfs_kernel,
    read_state,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_files import (
    apt_files,
    boot_units,
    directories,
    modprobe_files,
    persistence_files,
    source_files,
    units,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_findings import (
    findings,
    proofs,
    reboot_reasons,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_model import Plan
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import Change, Failed, Run
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_requirements import requirements
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_state import (
    DriverRequest,
    DriverState,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_transaction import (
    leaving,
    to_complete,
    transaction_lines,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.gpus import of_host
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.kernels import is_kernel_metapackage
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.versions import is_driver

ROLE = "nvidia_driver"


class DriverFiles(t.TypedDict):
    """The files of the driver, by the set that they belong to."""

    source_files: list[FileRow]
    source_due: bool
    directories: list[DirectoryRow]
    files: list[FileRow]
    files_due: bool
    modprobe_files: list[FileRow]
    modprobe_due: bool


class DriverPlan(DriverFiles):
    """The plan, as the tasks of the role take it. The keys that end in ``_due`` say which tasks would change something."""

    source: str
    branch: int
    modules: str
    scope: str
    reasons: list[str]
    requirements: list[Problem]
    repository: dict[str, str]
    repository_due: bool
    install_due: bool
    change: JsonObject
    shown: dict[str, str]
    going: list[str]
    pending: bool
    unsettled: bool
    unfinished: list[str]
    initramfs_kernel: str
    units: list[UnitRow]
    boot_units: list[UnitRow]
    secure_boot: str
    mok_certificate: str
    gpus: int
    reboot: list[str]
    findings: list[Finding]
    proofs: list[Finding]


def plan_host(tree: Tree, run: Run, params: DriverRequest, check_mode: bool) -> DriverPlan:
    """Return what the module nvidia_driver_plan returns. The keys that end in ``_due`` say which tasks would change something.

    :raises Stuck: the record is damaged.
    """
    state, change = read_state(tree, run, params, refresh=params["upgrade"] and not check_mode)
    plan, record = state.plan, state.record
    absent = params["state"] == "absent"
    going = leaving(state) if absent else []
    unfinished = [] if absent else to_complete(state, change)
    not_as_wanted = set(state.locked) - set(state.facts["holds"]) if params["lock"] else set(record.held)
    reboot = reboot_reasons(state, None if absent else change)
    problems, pending = requirements(state, change, params), bool(change or not_as_wanted or unfinished)
    if absent:
        problems = [in_use(state.facts, params["interrupt"])] if going or record.replaced else []
        pending = bool(record.baseline or record.installed or record.held)
    files = _files(tree, run, state, change, params)
    repository = {} if absent else _repository(plan, params)
    repository_due = cuda_repository.is_due(run, ROLE, repository)
    return {
        "source": plan.source,
        "branch": plan.branch,
        "modules": plan.modules,
        "scope": plan.scope,
        "reasons": plan.reasons,
        "requirements": problems,
        "repository": repository,
        "repository_due": repository_due,
        "install_due": pending or repository_due or files["source_due"],
        "change": dataclasses.asdict(change) if change else {},
        "shown": transaction_lines(state, change),
        "going": going,
        "pending": pending,
        "unsettled": record.is_unsettled(state.boot) or bool(unfinished),
        "unfinished": unfinished,
        **files,
        "initramfs_kernel": initramfs_kernel(tree, state),
        "units": units(state),
        "boot_units": boot_units(tree),
        "secure_boot": plan.secure_boot,
        "mok_certificate": state.facts["secure_boot"]["certificate"],
        "gpus": len(of_host(state.facts["gpus"])),
        "reboot": reboot,
        "findings": findings(state, change, reboot),
        "proofs": proofs(state, change, reboot, params["lock"]),
    }


def _files(tree: Tree, run: Run, state: DriverState, change: Change | None, params: DriverRequest) -> DriverFiles:
    """Return the files of the driver, by the set that they belong to."""
    sources: list[FileRow] = []
    files: list[FileRow] = []
    modprobe: list[FileRow] = []
    if params["state"] != "absent" and not state.plan.refused:
        sources = source_files(components_source(run, state))
        files = apt_files(state, params["lock"])
        if state.built or change:
            files += persistence_files(state)
        modprobe = modprobe_files(state, change, params["module_options"])
    return {
        "source_files": sources,
        # A source that is not planned must not exist.
        "source_due": is_due(tree, f"{ROLE}_source", sources),
        "directories": directories(files),
        "files": files,
        # The role adds to these files, so that only config_files knows whether the set is as wanted.
        "files_due": is_due(tree, ROLE) if params["state"] == "absent" else True,
        "modprobe_files": modprobe,
        "modprobe_due": is_due(tree, f"{ROLE}_modprobe", modprobe),
    }


def _repository(plan: Plan, params: DriverRequest) -> dict[str, str]:
    """Return what the module cuda_repository takes."""
    row = plan.repository
    if not row or plan.refused:
        return {}
    architecture = row["architectures"].get(platform.machine(), "x86_64")
    return repository_at(row["directory"], architecture, row["keyring_sha256"], params["repository"] or {})


def locked_names(host: Host) -> list[str]:
    """Return the installed packages that are held as one unit."""
    return sorted(name for name in host.dpkg.packages() if is_driver(name) or is_kernel_metapackage(name))


def carry_out(host: Host, params: JsonObject) -> str:
    """Run what the module nvidia_driver_packages is asked for. Return why a change was taken back, empty if none was."""
    if params["state"] == "absent":
        host.give_back(params["going"])
        return ""
    taken_back = ""
    try:
        if params["state"] == "present" and params["change"]:
            host.change(Change(**params["change"]))
        elif params["state"] == "settled":
            host.settle()
    except Failed as error:
        if params["state"] == "present":
            raise
        taken_back = str(error)
    host.complete(params["unfinished"], replaced=bool(params["change"]))
    host.hold(locked_names(host) if params["lock"] else [])
    return taken_back

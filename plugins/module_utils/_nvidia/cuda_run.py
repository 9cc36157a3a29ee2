# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan CUDA on a host: what the modules cuda_plan and cuda_verify run."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt import components as archive
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_due import is_due
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import FileRow, JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import cuda_plan as cuda
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import cuda_repository
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import package_catalogue as package_data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_facts import (
    install_steps,
    known_packages,
    package_set,
    read_host,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_options import CudaOptions

ROLE = "cuda"
ARCHIVE_SOURCE = "/etc/apt/sources.list.d/rigwright-cuda.sources"

Run = t.Callable[..., tuple[int, str, str]]


class CudaRequest(CudaOptions):
    """A request: the options, and what the contexts add. ``program`` is that of the verification."""

    ask_apt: bool
    program: str


def plan_host(tree: Tree, run: Run, request: CudaRequest) -> JsonObject:
    """Return the plan. The keys that end in ``_due`` say which tasks would change something.

    :raises ValueError: the role's own record is damaged.
    """
    host = read_host(tree, ROLE)
    if request["state"] == "absent":
        return {
            **dataclasses.asdict(cuda.plan_absent(host)),
            "repository_due": cuda_repository.is_due(run, ROLE, {}),
            "environment_due": is_due(tree, ROLE),
            "package_files_due": is_due(tree, package_set(ROLE)),
        }
    # "13.0, 12.9" comes as a list with a space in it.
    toolkits = tuple(toolkit.strip() for toolkit in request["toolkits"])
    wanted = cuda.Request(
        request["source"], toolkits, request["default"], request["driver_branch"], request["free_bytes"]
    )
    plan = cuda.plan_present(host, wanted)
    if request["ask_apt"] and plan.source == data.CUDA_REPOSITORY:
        choices = {row.version: cuda.package_of(row.version) for row in data.TOOLKITS}
        plan.check_known("cuda_toolkits", choices, known_packages(run, choices.values()))
    from_archive = not plan.requirements and plan.source == data.ARCHIVE
    sources = archive_files(run, host) if from_archive else []
    return {
        **dataclasses.asdict(plan),
        **install_steps(tree, run, ROLE, host, plan, request["repository"] or {}, sources),
        "gpus": len(host.generations),
    }


def archive_files(run: Run, host: cuda.Host) -> list[FileRow]:
    """Return the source of the components that have the archive's toolkit."""
    components = next(
        row.components
        for row in package_data.ARCHIVES
        if (row.distribution, row.version) == (host.distribution, host.version)
    )
    wanted = [name for name in components if "firmware" not in name and name != "restricted"]
    _rc, out, _err = run(list(archive.COMMAND), check_rc=True)
    text = archive.component_source(archive.parse_targets(out), host.distribution, wanted, ARCHIVE_SOURCE)
    return [{"path": ARCHIVE_SOURCE, "content": text}] if text else []

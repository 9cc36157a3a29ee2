# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan cuDNN on a host: what the modules cudnn_plan and cudnn_verify run."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_due import is_due
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import cuda_repository, cudnn_apply
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import cudnn_plan as cudnn
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_facts import (
    install_steps,
    known_packages,
    package_set,
    read_host,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cudnn_options import CudnnOptions

ROLE = "cudnn"


class Unplannable(ValueError):
    """A record or an option cannot be read; the text is a sentence without its full stop."""


class CudnnRequest(CudnnOptions):
    """A request: the options, and what the contexts add. ``programs`` are those of the verification."""

    ask_apt: bool
    programs: dict[str, str]


def plan_host(tree: Tree, run: t.Callable[..., tuple[int, str, str]], request: CudnnRequest) -> JsonObject:
    """Return the plan. The keys that end in ``_due`` say which tasks would change something.

    :raises Unplannable: the role's own record is damaged, or ``cudnn_wheels`` is no table of checksums.
    """
    try:
        host = read_host(tree, ROLE)
    except ValueError as error:
        raise Unplannable(f"{error}. Nothing was changed") from error
    if request["state"] == "absent":
        return {
            **dataclasses.asdict(cudnn.plan_absent(host)),
            "repository_due": cuda_repository.is_due(run, ROLE, {}),
            "wheels_due": cudnn_apply.is_due([]),
            "package_files_due": is_due(tree, package_set(ROLE)),
        }
    try:
        wheels = cudnn.read_wheels(request["wheels"])
    except ValueError as error:
        raise Unplannable(f'cudnn_wheels: {error}; write it as {{"9.28.0.42": {{"13": [<SHA-256>]}}}}') from error
    wanted = cudnn.Request(request["source"], tuple(request["cuda_majors"]), request["version"], wheels)
    plan = cudnn.plan_present(host, wanted)
    if request["ask_apt"] and plan.source == data.CUDA_REPOSITORY:
        choices = {str(major): cudnn.package_of(major) for major in cudnn.MAJORS}
        plan.check_known("cudnn_cuda_majors", choices, known_packages(run, choices.values()))
    return {
        **dataclasses.asdict(plan),
        **install_steps(tree, run, ROLE, host, plan, request["repository"] or {}),
        "wheels_due": cudnn_apply.is_due(plan.wheels),
        "gpus": len(host.generations),
    }

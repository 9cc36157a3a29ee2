# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""CUDA for compilers and users."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host, Refused
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_run import CudaRequest, plan_host
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_verify import findings

ROOT = "/"


def plan(request: CudaRequest, host: Host) -> dict[str, t.Any]:
    try:
        return plan_host(Tree(ROOT), host.run_command, request)
    except ValueError as error:
        raise Refused(f"{error}. Nothing was changed.") from error


def verify(request: CudaRequest, host: Host) -> list[Finding]:
    return findings(host.run_client, request, plan(request, host))

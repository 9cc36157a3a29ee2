# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""cuDNN for compilers and users."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host, Refused
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cudnn_run import (
    CudnnRequest,
    Unplannable,
    plan_host,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cudnn_verify import findings

ROOT = "/"


def plan(request: CudnnRequest, host: Host) -> dict[str, t.Any]:
    try:
        return plan_host(Tree(ROOT), host.run_command, request)
    except Unplannable as error:
        raise Refused(f"{error}.") from error


def verify(request: CudnnRequest, host: Host) -> list[Finding]:
    return findings(host.run_client, request, plan(request, host))

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NVIDIA's container toolkit."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.gpu_toolkit_request import Params
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.gpu_toolkit_run import run
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.gpu_toolkit_verify import findings


def plan(request: Params, host: Host) -> dict[str, t.Any]:
    return run(request, host.run_command)


def verify(request: Params, host: Host) -> list[Finding]:
    return findings(host.run_client, plan(request, host))

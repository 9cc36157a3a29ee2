# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NVIDIA's driver."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host, Refused
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.dpkg import command_runner
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_findings import nvidia_smi
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import Stuck
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_run import DriverPlan, plan_host
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_state import DriverRequest

ROOT = "/"
# As an unprivileged user: root could create device nodes that a user cannot.
NVIDIA_SMI = ["runuser", "--user", "nobody", "--", "nvidia-smi", "-L"]


def plan(request: DriverRequest, host: Host) -> DriverPlan:
    try:
        return plan_host(Tree(ROOT), command_runner(host.run_command), request, host.check_mode)
    except Stuck as error:
        raise Refused(f"{error}.") from error


def verify(request: DriverRequest, host: Host) -> list[Finding]:
    found = plan(request, host)
    outcome = host.run_client(NVIDIA_SMI) if found["gpus"] > 0 else None
    return [*found["proofs"], nvidia_smi(outcome, found["reboot"])]

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who uses GPUs, and how much."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import plan as planning
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.request import Request
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.verify import findings

# The Python of modules, which python_environment makes.
ENVIRONMENT = "/opt/rigwright/python"


def plan(request: Request, host: Host) -> planning.Plan:
    del host
    return planning.plan(request, ENVIRONMENT)


def verify(request: Request, host: Host) -> list[Finding]:
    containers = request["containers"] and accounts.group(planning.DOCKER_GROUP) is not None
    return findings(host.run_client, request["textfile_directory"], containers)

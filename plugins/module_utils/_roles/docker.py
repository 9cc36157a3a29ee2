# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Docker, and GPUs in containers."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan import Plan
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.options import Params
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.run import run
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.verify import findings
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.table import RULES


def plan(request: Params, host: Host) -> Plan:
    return run(request, host.run_command, RULES)


def verify(request: Params, host: Host) -> list[Finding]:
    return findings(host.run_client, request, plan(request, host).result())

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The server of ssh."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.plan import SshPlan
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.request import Params
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.run import Planner
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.verify import findings


def plan(request: Params, host: Host) -> SshPlan:
    return Planner(host, request).run()


def verify(request: Params, host: Host) -> list[Finding]:
    return findings(host.run_client, request, plan({**request, "proof": "all"}, host))

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the host lets in."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import findings
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.facts import FirewallPlan, plan_for
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.firewall_options import FirewallOptions

ROOT = "/"


def plan(request: FirewallOptions, host: Host) -> FirewallPlan:
    return plan_for(host, Tree(ROOT), request)


def verify(request: FirewallOptions, host: Host) -> list[Finding]:
    found = plan(request, host)
    return [found["in_force"], *found["findings"], findings.request(found["requirements"])]

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mirrors for apt, pip, conda and others."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.mirror_plan import MirrorPlan, plan_for
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.mirror_request import Params
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.mirror_verify import verify as findings
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding


def plan(request: Params, host: Host) -> MirrorPlan:
    return plan_for(host, request)


def verify(request: Params, host: Host) -> list[Finding]:
    # The state of now, not the one of the last choice.
    return findings(host, request, plan_for(host, {**request, "check": True, "recheck": True}))

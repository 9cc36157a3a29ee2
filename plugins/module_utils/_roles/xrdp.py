# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Remote desktops."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.request import Params
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.run import XrdpPlan, run, verified


def plan(request: Params, host: Host) -> XrdpPlan:
    return run(host, request)


def verify(request: Params, host: Host) -> list[Finding]:
    return verified(host.run_client, run(host, request, probe=True))

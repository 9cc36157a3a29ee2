# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shares of Samba, and their clients."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan import Plan
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.plan import Planner
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.verify import findings


def plan(request: dict[str, t.Any], host: Host) -> Plan:
    return Planner(host, request).run()


def verify(request: dict[str, t.Any], host: Host) -> list[Finding]:
    return findings(host.run_client, request, plan(request, host).result())

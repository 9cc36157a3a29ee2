# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The client of a tunnel by frp."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan import Plan
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import FileRow
from ansible_collections.rigwright.workstation.plugins.module_utils._frp.config import client_files
from ansible_collections.rigwright.workstation.plugins.module_utils._frp.plan import plan_client
from ansible_collections.rigwright.workstation.plugins.module_utils._frp.verify import client_findings


def plan(request: dict[str, t.Any], host: Host) -> Plan:
    del host
    return plan_client(request)


def secret_files(request: dict[str, t.Any]) -> list[FileRow]:
    return client_files(request) if request["state"] == "present" else []


def verify(request: dict[str, t.Any], host: Host) -> list[Finding]:
    return client_findings(host.run_client, request)

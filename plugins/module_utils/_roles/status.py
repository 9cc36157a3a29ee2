# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The display of the state of the host."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._status.checks import logins_due, problems
from ansible_collections.rigwright.workstation.plugins.module_utils._status.status_options import StatusOptions
from ansible_collections.rigwright.workstation.plugins.module_utils._status.verify import findings


def plan(request: StatusOptions, host: Host) -> JsonObject:
    del host
    found = problems(request) if request["state"] == "present" else []
    return {"requirements": found, "logins": logins_due(request, Tree())}


def verify(request: StatusOptions, host: Host) -> list[Finding]:
    return findings(host.run_client, request)

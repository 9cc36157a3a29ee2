# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the GPUs are sound."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.verify import Request, findings


def verify(request: Request, host: Host) -> list[Finding]:
    return findings(host.run_client, request)

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs that are divided or shared."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host, Refused
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu import nvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing import verify as proof
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing.request import Plan
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.sharing.run import (
    Request,
    Unplannable,
    plan_host,
)


def plan(request: Request, host: Host) -> Plan:
    try:
        return _plan(request, host)
    except Unplannable as error:
        raise Refused(str(error), error.result) from error


def verify(request: Request, host: Host) -> list[Finding]:
    try:
        return proof.findings(_plan(request, host), request["state"], host.check_mode)
    except Unplannable as error:
        return proof.unreadable(str(error), str(error.result.get("next_step", "")))


def _plan(request: Request, host: Host) -> Plan:
    if nvml.pynvml is None:
        host.need_python(nvml.PYTHON)
    return plan_host(host, request)

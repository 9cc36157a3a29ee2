# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether GPUs compute, with the programs of users."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host, Refused
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke import run
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.smoke.request import Request


def verify(request: Request, host: Host) -> list[Finding]:
    del host
    try:
        return run.run(request)
    except Refusal as error:
        raise Refused(f"{error}. Nothing was run.") from error

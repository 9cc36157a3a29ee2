# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: gpu_findings
short_description: What gpu_info tells, as findings
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Makes a finding for the driver and one for each GPU, of which the evidence is a line - model, how it is shared, memory, power,
    temperature and users.
  - A GPU that does not answer, and a driver that cannot be asked, have failed, with NVML's stable name and the next step.
options:
  _input:
    description: The result of M(rigwright.workstation.gpu_info).
    type: dict
    required: true
seealso:
  - module: rigwright.workstation.gpu_info
  - module: rigwright.workstation.finding
"""

EXAMPLES = r"""
- name: Record what the GPUs are and do
  rigwright.workstation.finding:
    findings: "{{ gpu | rigwright.workstation.gpu_findings }}"
"""

RETURN = r"""
_value:
  description: Findings, each with C(id), C(status), C(evidence) and C(remedy).
  type: list
  elements: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.rigwright.workstation.plugins.plugin_utils._gpu_findings import findings


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"gpu_findings": findings}

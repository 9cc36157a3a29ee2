# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: gpu_findings
short_description: Findings of the facts of gpu_info
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Returns a finding for the driver and one for each GPU. The evidence of a GPU is one line - model, sharing mode, memory, power,
    temperature and users.
  - A GPU or a driver that does not answer has failed, with NVML's stable name and the next step.
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
- name: Record the state of the GPUs
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

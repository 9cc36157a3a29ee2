# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: gpu_fleet
short_description: GPUs that differ from others of their model
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Compares the measurements of M(rigwright.workstation.gpu_accept) on all hosts. Three or more GPUs of a model are compared with their
    median, two or more by their products, bit by bit.
  - Reports a GPU that is more than 5 % slower, more than 8 degrees Celsius warmer at equal power, or computes differently from most.
  - Compares only GPUs under equal conditions - PyTorch, power limit, size of the matrices, seconds of warm-up and windows.
options:
  _input:
    description: RV(rigwright.workstation.gpu_accept#module:gpus) of each host, by the host's name.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Record the GPUs that are slower than others of their model
  rigwright.workstation.finding:
    findings: "{{ ({'ws1': accept_1.gpus, 'ws2': accept_2.gpus} | rigwright.workstation.gpu_fleet)[inventory_hostname] }}"
"""

RETURN = r"""
_value:
  description: Lists of findings by host, as M(rigwright.workstation.finding) takes them. Without a difference, one passes.
  type: dict
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import compare
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.accept import verdict as accept


def gpu_fleet(accounts: Mapping[str, Sequence[JsonObject]]) -> dict[str, list[Finding]]:
    """Return the findings of each host."""
    if not isinstance(accounts, Mapping):
        raise AnsibleFilterError("gpu_fleet takes a mapping of hosts, each with the `gpus` that gpu_accept returned")
    reports: Any = [{"host": host, **gpu} for host, gpus in accounts.items() for gpu in gpus]
    problems = compare.fleet(reports)
    found: dict[str, list[Finding]] = {}
    for host, gpus in accounts.items():
        own: list[Finding] = [
            {
                "id": f"gpu_fleet.{row['uuid']}_{row['test']}",
                "status": accept.STATUSES[row["verdict"]],
                "evidence": f"{row['test']}: {row['evidence']}",
                "remedy": row["next_step"],
            }
            for row in problems
            if row["host"] == host
        ]
        alike: Finding = {
            "id": "gpu_fleet.alike",
            "status": "pass" if gpus else "skip",
            "evidence": "no GPU differs from others of its model" if gpus else "no GPU was measured",
            "remedy": "",
        }
        found[host] = own or [alike]
    return found


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"gpu_fleet": gpu_fleet}

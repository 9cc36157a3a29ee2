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
  - Compares what M(rigwright.workstation.gpu_accept) measured on all hosts with the median of the model, for models of which there are
    three or more, and the products themselves bit by bit, from two on.
  - A GPU is named that is more than 5 % slower, more than 8 degrees Celsius warmer at equal power, or computes otherwise than most.
  - Only GPUs under equal circumstances are compared - PyTorch, power limit, size of the matrices, seconds of warm-up and windows.
options:
  _input:
    description: RV(rigwright.workstation.gpu_accept#module:gpus) of each host, by the host's name.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Name the GPUs that are slower than others of their model
  ansible.builtin.debug:
    msg: "{{ {'ws1': accept_1.gpus, 'ws2': accept_2.gpus} | rigwright.workstation.gpu_fleet }}"
"""

RETURN = r"""
_value:
  description: What was found - C(host), C(uuid), C(verdict), C(test), C(evidence), C(next_step). Empty when they are alike.
  type: list
  elements: dict
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.rigwright.workstation.plugins.module_utils import _gpu_accept_compare as compare


def gpu_fleet(accounts: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return the problems of GPUs beside others of their model."""
    if not isinstance(accounts, Mapping):
        raise AnsibleFilterError("gpu_fleet takes a mapping of hosts, each with the `gpus` that gpu_accept returned")
    return compare.fleet([{"host": host, **gpu} for host, gpus in accounts.items() for gpu in gpus])


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"gpu_fleet": gpu_fleet}

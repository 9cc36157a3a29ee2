#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_driver_packages
short_description: Change the packages of the NVIDIA driver, or restore the previous ones
description:
  - Carries out the transaction that the role P(rigwright.workstation.nvidia_driver#role) has planned. The old branch goes and the new one
    comes within one call of apt, and what was there is kept as packages first.
  - When apt fails, or DKMS has not built the module for the kernel that boots next, the previous packages are restored from what was
    kept, without a network, and the task fails with the reason.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  state:
    description:
      - V(present) carries O(change) out and sets the holds.
      - V(settled) completes what an earlier run left. An interrupted change is completed or taken back. A change that the host has booted
        with is accepted or taken back. dpkg finishes the packages that it has begun. O(unfinished) have to be finished afterwards.
      - V(absent) removes O(going), restores the driver that the role once replaced, and lifts its holds. Libraries and kernels that became
        newer with a driver stay as they are.
    type: str
    choices: [present, settled, absent]
    default: present
  change:
    description: The transaction, as the plan returns it.
    type: dict
    default: {}
  shown:
    description: The packages before and after, as the plan returns them, for the diff.
    type: dict
    default: {}
  going:
    description: Packages to remove with V(absent).
    type: list
    elements: str
    default: []
  unfinished:
    description:
      - Packages that dpkg has to finish with V(settled), as the plan returns them. Those of the driver are exempt if O(change) follows,
        which replaces them.
    type: list
    elements: str
    default: []
  lock:
    description: Whether driver, libraries and the kernel's metapackages are held.
    type: bool
    default: true
seealso:
  - module: rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Change the driver
  rigwright.workstation.nvidia_driver_packages:
    change: "{{ plan.change }}"
    shown: "{{ plan.shown }}"
"""

RETURN = r"""
version:
  description: The driver's version afterwards, empty for none.
  returned: success
  type: str
  sample: 580.159.04
taken_back:
  description: Why a change was taken back, empty when none was. Only O(state=settled) returns it; otherwise the task fails with it.
  returned: success
  type: str
  sample: ""
"""

import contextlib
import dataclasses

from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.dpkg import command_runner
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_change import Host, alone
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_record import Failed, Stuck
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_run import carry_out

ROOT = "/"


def main() -> None:
    module = HostModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "settled", "absent"], "default": "present"},
            "change": {"type": "dict", "default": {}},
            "shown": {"type": "dict", "default": {}},
            "going": {"type": "list", "elements": "str", "default": []},
            "unfinished": {"type": "list", "elements": "str", "default": []},
            "lock": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    try:
        with contextlib.nullcontext() if module.check_mode else alone():
            host = Host(command_runner(module.run_command), ROOT)
            before = dataclasses.asdict(host.record)
            taken_back = "" if module.check_mode else carry_out(host, module.params)
    except (Failed, Stuck, OSError) as error:
        module.fail_json(msg=f"{error}.".replace("..", "."))
    shown = module.params["shown"]
    module.exit_json(
        # A key that waits for a person at the console leaves nothing to settle.
        changed=module.params["state"] != "settled"
        or bool(module.params["unfinished"])
        or dataclasses.asdict(host.record) != before,
        version=host.version(),
        taken_back=taken_back,
        diff={
            "before": shown.get("before", ""),
            "after": shown.get("after", ""),
            "before_header": "packages",
            "after_header": "packages",
        },
    )


if __name__ == "__main__":
    main()

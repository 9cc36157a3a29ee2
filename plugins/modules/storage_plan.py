#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: storage_plan
short_description: Plan disks, mounts and directories (internal to the role storage)
description:
  - Internal to the role P(rigwright.workstation.storage#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.plan). Changes nothing.
  - Returns what M(rigwright.workstation.storage_disks) would do, and the problems of the request.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Plan disks, mounts and directories
  rigwright.workstation.plan:
  register: __storage_plan
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.run import Storage, outcome
from ansible_collections.rigwright.workstation.plugins.module_utils._system.configured import exit_plan


def main() -> None:
    module, request = role_module()
    if request["state"] == "absent":
        module.exit_json(changed=False)
    exit_plan(module, "storage", **outcome(Storage(module, request)))


if __name__ == "__main__":
    main()

#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: storage_verify
short_description: Verify disks, logins and the dataset cache (internal to the role storage)
description:
  - Internal to the role P(rigwright.workstation.storage#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.verify). Changes nothing.
  - Compares disks, mounts and directories with the request, as M(rigwright.workstation.storage_disks) does with V(planned), and then checks
    fstab, timers, logins and the dataset cache.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Verify disks and logins
  rigwright.workstation.verify:
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import client_runner, role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.run import Storage, host_facts
from ansible_collections.rigwright.workstation.plugins.module_utils._storage.verify import findings
from ansible_collections.rigwright.workstation.plugins.module_utils._system.drop_ins import exit_verified


def main() -> None:
    module, request = role_module()
    storage = Storage(module, {**request, "state": "planned", "health": request["smart"]})
    planned = {
        "findings": storage.findings(),
        "container": host_facts(storage.run)["container"],
        "cache_directory": storage.dataset_cache.get("cache", ""),
    }
    exit_verified(module, "storage", findings(client_runner(module), {**request, **planned}))


if __name__ == "__main__":
    main()

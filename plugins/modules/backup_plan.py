#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: backup_plan
short_description: Plan the backups of a host (internal to the role backup)
description:
  - Internal to the role P(rigwright.workstation.backup#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.plan). Changes nothing.
  - Reads the host (packages, mounts, C(fstab), timers that are there), and asks C(systemd-analyze calendar) about the schedules.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Plan the backups
  rigwright.workstation.plan:
  register: __backup_plan
"""

RETURN = r""" # """

import dataclasses

from ansible_collections.rigwright.workstation.plugins.module_utils._backup import facts, value_types
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import plan as planning
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.request import separate
from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._system.configured import exit_plan

ROOT = "/"


def main() -> None:
    module, request = role_module()
    tree = Tree(ROOT)
    if request["state"] == "absent":
        plan = planning.plan_absent(facts.read_installed(request, tree))
    else:
        # Files with secrets are added by the filter backup_secret_files: no plan has a secret.
        public, _files, problems = separate(request)
        # A path with a NUL cannot be looked up on the host.
        unfit = any(value_types.problems(public))
        host = facts.Host() if unfit else facts.read_host(module.run_command, public, tree, request["planned"])
        plan = planning.plan_present(public, host)
        plan.requirements = [*problems, *plan.requirements]
    exit_plan(module, "backup", **dataclasses.asdict(plan))


if __name__ == "__main__":
    main()

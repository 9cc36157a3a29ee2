#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: backup_plan
short_description: Plan the backups of a host
description:
  - Reads the host (packages, mounts, C(fstab), timers that are there) and returns what the role P(rigwright.workstation.backup#role) has to
    do, and why it is refused. It changes nothing.
  - systemd checks the schedules, by C(systemd-analyze calendar).
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details:
      - Nothing is ever changed.
options:
  state:
    description:
      - V(absent) plans to remove what the role installed.
    type: str
    choices: [present, absent]
    default: present
  request:
    description:
      - The variables of the role by their names without C(backup_), the repositories as the filter
        P(rigwright.workstation.backup_request#filter) has them, and the jobs as P(rigwright.workstation.backup_commands#filter) does.
        No secret is among them.
      - In addition C(packages) to install, C(program) (the path of restic), C(hardening) (lines of a unit) and C(header).
      - Required if O(state=present).
    type: dict
    default: {}
  planned:
    description:
      - In check mode, what earlier tasks of the run would have made. It counts as present (C(roles/common/vars/planned.yml)).
    type: dict
    default: {}
notes:
  - Run it as root.
seealso:
  - module: rigwright.workstation.backup_repository
"""

EXAMPLES = r"""
- name: Plan the backups
  rigwright.workstation.backup_plan:
    request: "{{ __backup_request }}"
  register: plan

- name: Refuse jobs that overlap, or a retention that keeps nothing
  rigwright.workstation.require:
    that: "{{ plan.requirements }}"
"""

RETURN = r"""
requirements:
  description: Problems, as M(rigwright.workstation.require) takes them. With any problem, the rest of the plan is empty.
  returned: success
  type: list
  elements: dict
  sample: [{ok: false, variable: backup_jobs, problem: "has in home a retention that keeps nothing", remedy: "say how many are kept"}]
findings:
  description: What the user has to do, as M(rigwright.workstation.finding) takes it.
  returned: success
  type: list
  elements: dict
  sample: []
install:
  description: Packages to install.
  returned: success
  type: list
  elements: str
  sample: [restic]
release_gone:
  description: Whether a release of restic is installed that the request no longer has.
  returned: success
  type: bool
user_due:
  description: Whether the user of the units has to be created.
  returned: success
  type: bool
repositories_due:
  description: Repositories whose settings have changed since they were last opened, or that still take an old password.
  returned: success
  type: list
  elements: str
  sample: [disk]
directories:
  description: Directories that the files need.
  returned: success
  type: list
  elements: dict
  sample: [{path: /etc/rigwright}]
files:
  description: Configuration and units, as M(rigwright.workstation.config_files) takes them.
  returned: success
  type: list
  elements: dict
  sample: [{path: /etc/systemd/system/rigwright-backup-run-home.timer, content: "[Unit] ..."}]
reload_due:
  description: Whether systemd has loaded older services than the files.
  returned: success
  type: bool
units:
  description: The timers, as M(rigwright.workstation.systemd_units) takes them.
  returned: success
  type: list
  elements: dict
  sample: [{name: rigwright-backup-run-home.timer, state: started, enabled: true}]
units_gone:
  description: Timers that the request no longer has; for O(state=absent) the services as well, so that no run goes on.
  returned: success
  type: list
  elements: dict
  sample: []
"""

import dataclasses

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import facts, value_types
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import plan as planning
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree

ROOT = "/"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "request": {"type": "dict", "default": {}},
            "planned": {"type": "dict", "default": {}},
        },
        required_if=[("state", "present", ["request"])],
        supports_check_mode=True,
    )
    tree = Tree(ROOT)
    if module.params["state"] == "absent":
        plan = planning.plan_absent(facts.Host(units=facts.read_units(tree)))
    else:
        planned = module.params["planned"] if module.check_mode else {}
        request = module.params["request"]
        # A value of the wrong type cannot be looked up on the host.
        unfit = any(value_types.problems(request))
        host = facts.Host() if unfit else facts.read_host(module.run_command, request, tree, planned)
        plan = planning.plan_present(request, host)
    module.exit_json(changed=False, **dataclasses.asdict(plan))


if __name__ == "__main__":
    main()

#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation of the action plugin of the same name (plugins/action/plan.py).

from __future__ import annotations

DOCUMENTATION = r"""
module: plan
short_description: Plan the calling role on the host, and refuse a request that cannot be met
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Takes the variables of the calling role that its C(meta/argument_specs.yml) declares, validates and converts them, and fills defaults.
    No other declaration of these options exists.
  - Adds C(__<role>_plan_context) or else C(__<role>_context), a variable of the role with what is no option, such as names of packages
    and units of the platform. A role without one gets C(__common_context), a variable of the role C(common).
  - Starts M(rigwright.workstation.role) once on the host, which calls C(plan) of C(plugins/module_utils/_roles/<role>.py).
  - Neither the request nor a result with secrets is logged on the host.
  - Refuses all problems at once, before anything changes, as M(rigwright.workstation.require) does.
  - A plan that was made with secrets, or that found some on the host, is not shown, not even with C(-vvv).
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - What earlier roles of the run would make counts as there.
  diff_mode:
    support: none
options:
  roles:
    description:
      - Plans these roles ahead, in one module run, outside of any role. Register the result as C(__common_plans).
      - A role that is planned later takes the plan from there, if it was made for the same request, and no task has changed the host since.
        Otherwise it plans itself.
      - Refuses nothing. Roles without a plan, and requests that do not fit, are left to the roles.
      - Needs P(rigwright.workstation.report#callback), which knows of changes. Without it each role plans itself.
    type: list
    elements: str
    default: []
  requirements:
    description: More requirements, as M(rigwright.workstation.require) takes them.
    type: list
    elements: dict
    default: []
  refuse:
    description: With V(false), problems are returned and refuse nothing.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Plan Samba (in the role samba)
  rigwright.workstation.plan:
  register: __samba_plan

- name: Plan roles ahead (in a playbook)
  rigwright.workstation.plan:
    roles: [ssh, samba]
  register: __common_plans
"""

RETURN = r"""
plans:
  description: The plans of O(roles), for the roles.
  returned: with O(roles)
  type: dict
  sample: {}
requirements:
  description: The problems. The rest of the plan depends on the role.
  returned: success
  type: list
  elements: dict
  sample: []
configured_sets:
  description:
    - The sets of M(rigwright.workstation.config_files) whose files and units are as the last run left them, with the digest of its request.
    - If no task has changed the host since the plan, M(rigwright.workstation.config_files) starts no module for the same request.
  returned: success
  type: dict
  sample: {samba: 8d777f385d3dfec8815d20f7496026dc}
"""

#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mirrors_verify
short_description: Verify the mirrors by their clients (internal to the role mirrors)
description:
  - Internal to the role P(rigwright.workstation.mirrors#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.verify).
  - Asks each apt mirror for its state, updates apt's lists from the mirrors, reads the index of pip, and asks for a page of each
    other service. Changes nothing but apt's lists.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Verify the mirrors
  rigwright.workstation.verify:
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.mirror_plan import plan_for
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.mirror_verify import verify
from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._system.drop_ins import exit_verified


def main() -> None:
    module, request = role_module()
    # The state of now, not the one of the last choice.
    plan = plan_for(module, {**request, "check": True, "recheck": True})
    exit_verified(module, "mirrors", verify(module, request, plan))


if __name__ == "__main__":
    main()

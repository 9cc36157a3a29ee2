#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mirrors_plan
short_description: Plan the files that send a host's package managers to mirrors (internal to the role mirrors)
description:
  - Internal to the role P(rigwright.workstation.mirrors#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.plan). Changes nothing.
  - Reads the host's own package sources, asks the mirrors for their state, and returns the files that make the host use them.
  - Suites, components and keys are those that the host has. Only the address changes, and the distribution's archive is
    defined once afterwards. Sources of third parties are left alone.
  - The choice of mirrors is remembered in one of the returned files. While the request stays the same it stands, and no
    mirror is asked again.
  - Mirrors are asked through C(apt-helper), so with the proxy and the certificates that apt itself uses; in check mode too.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Plan the mirrors
  rigwright.workstation.plan:
  register: __mirrors_plan
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.mirror_plan import plan_for
from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._system.configured import exit_plan


def main() -> None:
    module, request = role_module()
    exit_plan(module, "mirrors", **plan_for(module, request))


if __name__ == "__main__":
    main()

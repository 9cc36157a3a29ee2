#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: xrdp_plan
short_description: Plan a remote desktop without ending sessions (internal to the role xrdp)
description:
  - Internal to the role P(rigwright.workstation.xrdp#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.plan). Changes nothing.
  - Reads the desktop of the host, the users who are allowed to log in, the open sessions, and xrdp's files as its package installed
    them.
  - The plan sets the requested options in the files of the package, so that each version of xrdp keeps its own options. It removes
    session types in which a user names the host that xrdp connects to.
  - A restart of xrdp ends every session, because its units are bound to each other. The plan says whether a restart is allowed now, and
    changes everything else without one.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Plan a remote desktop (in the role xrdp)
  rigwright.workstation.plan:
  register: __xrdp_plan
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._system.configured import exit_plan
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.run import run


def main() -> None:
    module, request = role_module()
    exit_plan(module, "xrdp", **run(module, request))


if __name__ == "__main__":
    main()

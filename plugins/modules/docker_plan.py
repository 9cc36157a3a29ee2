#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: docker_plan
short_description: Plan docker on a host, so that what runs keeps running (internal to the role docker)
description:
  - Internal to the role P(rigwright.workstation.docker#role), whose argument spec describes the request. Called by
    M(rigwright.workstation.plan). Changes nothing.
  - Reads the host (packages, C(daemon.json), disks, the running docker and its containers).
  - C(daemon.json) is the deep merge of the host's own options, the options of the role, and the parts that other roles have put into
    C(/var/lib/rigwright_docker/parts). Later changes by a user or a program count as the host's own options.
  - dockerd itself validates the result. Docker 23 and newer have C(dockerd --validate). The module starts an older one as an unprivileged
    user, which dockerd refuses only after it has read its options.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.plan
"""

EXAMPLES = r"""
- name: Plan docker
  rigwright.workstation.plan:
  register: __docker_plan
"""

RETURN = r""" # """

from ansible_collections.rigwright.workstation.plugins.module_utils._core.plan_request import role_module
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.run import run
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.table import RULES
from ansible_collections.rigwright.workstation.plugins.module_utils._system.configured import exit_plan


def main() -> None:
    module, request = role_module()
    exit_plan(module, "docker", **run(request, module.run_command, RULES))


if __name__ == "__main__":
    main()

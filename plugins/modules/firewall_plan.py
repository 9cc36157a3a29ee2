#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: firewall_plan
short_description: Plan the table inet rigwright of nftables, and check the request
description:
  - Creates the requested rules, tries them with every declaration of C(/etc/nftables.d/rigwright) in a separate network namespace, and
    compares them with the table of the kernel. Changes nothing.
  - Returns a problem in RV(requirements) for a request that would lock out sshd or Ansible's own connection.
  - The role P(rigwright.workstation.firewall#role) applies the plan.
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
  ssh_networks:
    description:
      - Networks that are allowed to reach sshd. Its ports come from its own files each time the rules are loaded, and from O(ssh_ports).
    type: list
    elements: str
    required: true
  ssh_ports:
    description:
      - Further ports of sshd, which its files do not name.
    type: list
    elements: raw
    default: []
  allow:
    description:
      - Ports that no role declares, each with C(port) (a number or a range), C(networks), and optionally C(protocol) and C(comment).
    type: list
    elements: dict
    default: []
  containers:
    description:
      - Networks that are allowed to reach ports published by docker, in the form of O(allow).
    type: list
    elements: dict
    default: []
  bridges:
    description:
      - Interfaces of this machine's containers and virtual machines.
    type: list
    elements: str
    default: []
  bridges_reach_host:
    description:
      - Whether containers and virtual machines can reach all listeners of this machine, or only its DNS and DHCP.
    type: bool
    default: true
  log:
    description:
      - Whether dropped packets are logged, at most ten lines a minute.
    type: bool
    default: false
seealso:
  - module: rigwright.workstation.firewall_load
"""

EXAMPLES = r"""
- name: Show the ports that a firewall would close
  rigwright.workstation.firewall_plan:
    ssh_networks: [192.168.1.0/24]
  register: planned
"""

RETURN = r"""
requirements:
  description: The problems of the request, as M(rigwright.workstation.require) takes them.
  returned: success
  type: list
  elements: dict
rules:
  description: The content of C(/etc/nftables.d/rigwright.nft); empty for an invalid request.
  returned: success
  type: str
installed:
  description: Whether nft is installed.
  returned: success
  type: bool
load:
  description: Whether the kernel has other rules than these and the declarations.
  returned: success
  type: bool
start:
  description: Whether a unit is not enabled, not active, or changed since systemd loaded it.
  returned: success
  type: bool
in_force:
  description: The same, as a finding.
  returned: success
  type: dict
findings:
  description: The findings, as M(rigwright.workstation.finding) takes them.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import checks, findings, plan, table
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.facts import Reader

ROOT = "/"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "ssh_networks": {"type": "list", "elements": "str", "required": True},
            "ssh_ports": {"type": "list", "elements": "raw", "default": []},
            "allow": {"type": "list", "elements": "dict", "default": []},
            "containers": {"type": "list", "elements": "dict", "default": []},
            "bridges": {"type": "list", "elements": "str", "default": []},
            "bridges_reach_host": {"type": "bool", "default": True},
            "log": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    request = table.Request(**module.params)
    # Some kernels lack nft_socket, which the first text needs.
    texts = [""] if table.problems(request) else [table.text(request), table.text(request, older=False)]
    text, facts = Reader(module, Tree(ROOT)).facts(request, texts)
    module.exit_json(
        changed=False,
        requirements=checks.requirements(request, facts),
        rules=text,
        installed=facts.installed,
        load=plan.must_load(facts),
        start=not facts.units_are_up,
        in_force=findings.in_force(facts),
        findings=findings.findings(facts),
    )


if __name__ == "__main__":
    main()

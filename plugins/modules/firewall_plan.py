#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: firewall_plan
short_description: Decide what the table inet rigwright of nftables should be, and what speaks against it
description:
  - Makes the rules that are asked for, tries them with every declaration of C(/etc/nftables.d/rigwright) in a network namespace of their
    own, and compares them with what the kernel has. Changes nothing.
  - Refuses, as RV(requirements), what would lock out sshd or the connection by which Ansible has come.
  - The role P(rigwright.workstation.firewall#role) brings about what it returns.
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
      - Who may reach sshd. At which ports, its own files say each time the rules are loaded, and O(ssh_ports).
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
      - What no role declares, each with C(port) (a number or a range), C(networks), and perhaps C(protocol) and C(comment).
    type: list
    elements: dict
    default: []
  containers:
    description:
      - Who may reach ports that docker publishes, in the form of O(allow).
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
      - Whether containers and virtual machines reach everything of this machine, or only names and addresses.
    type: bool
    default: true
  log:
    description:
      - Whether what is dropped is logged, at most ten lines a minute.
    type: bool
    default: false
seealso:
  - module: rigwright.workstation.firewall_load
"""

EXAMPLES = r"""
- name: Look what a firewall would close
  rigwright.workstation.firewall_plan:
    ssh_networks: [192.168.1.0/24]
  register: planned
"""

RETURN = r"""
requirements:
  description: What is not met, for M(rigwright.workstation.require).
  returned: success
  type: list
  elements: dict
rules:
  description: The content of C(/etc/nftables.d/rigwright.nft); empty where the request is not right.
  returned: success
  type: str
installed:
  description: Whether nft is there.
  returned: success
  type: bool
load:
  description: Whether the kernel has something else than these rules and the declarations.
  returned: success
  type: bool
start:
  description: Whether a unit is not enabled, not active, or known to systemd in an older state.
  returned: success
  type: bool
in_force:
  description: The same as a finding.
  returned: success
  type: dict
findings:
  description: What a person should know, for M(rigwright.workstation.finding).
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import checks, table
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
    # Not every kernel has what the first of them asks for.
    texts = [""] if table.problems(request) else [table.text(request), table.text(request, older=False)]
    text, host = Reader(module, Tree(ROOT)).host(request, texts)
    module.exit_json(
        changed=False,
        requirements=checks.requirements(request, host),
        rules=text,
        installed=host.installed,
        load=checks.must_load(host),
        start=not host.units_are_up,
        in_force=checks.in_force(host),
        findings=checks.findings(host),
    )


if __name__ == "__main__":
    main()

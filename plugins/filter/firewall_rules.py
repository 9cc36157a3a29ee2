# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: firewall_rules
short_description: Format the ports that a role opens as a file for nftables
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Returns the content of C(/etc/nftables.d/rigwright/<role>.nft), which a role with a network service writes by its C(config_files).
  - The role P(rigwright.workstation.firewall#role) includes these files in its table. Without that role they have no effect.
  - The same request always gives the same text. Overlapping networks and ports are joined, since nftables refuses them as conflicts.
positional: _input, networks, service
options:
  _input:
    description:
      - Ports, each with C(port) and C(protocol).
      - C(port) is a number, a range such as C(6000-6010), or a list of these. C(protocol) is C(tcp) or C(udp).
    type: list
    elements: dict
    required: true
  networks:
    description:
      - Allowed clients, as networks in CIDR notation or addresses, IPv4 and IPv6.
      - An empty list opens nothing; C(0.0.0.0/0) and C(::/0) are all hosts.
    type: list
    elements: str
    required: true
  service:
    description: Name of the service. It is the comment of each rule in C(nft list ruleset).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Configure Samba
  rigwright.workstation.config_files:
    name: samba
    directories:
      - path: /etc/nftables.d
      - path: /etc/nftables.d/rigwright
    files:
      - path: /etc/nftables.d/rigwright/samba.nft
        content: "{{ [{'port': 445, 'protocol': 'tcp'}] | rigwright.workstation.firewall_rules(samba_networks, 'samba') }}"
"""

RETURN = r"""
_value:
  description: The text of the file. It ends with a newline.
  type: str
"""

from collections.abc import Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.module_utils.common.validation import check_type_list
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall import rules as firewall_rules_module


def firewall_rules(
    ports: Sequence[firewall_rules_module.OpenedPorts], networks: Sequence[str] | str, service: str
) -> str:
    """Return the file of one service. A text is a list as it is to the argument spec of a role: its parts between commas."""
    try:
        return firewall_rules_module.fragment(ports, check_type_list(networks), service)
    except (TypeError, ValueError) as error:
        raise AnsibleFilterError(f"firewall_rules: {error}") from error


class FilterModule:
    """Filters of this collection."""

    def filters(self) -> dict[str, Any]:
        return {"firewall_rules": firewall_rules}

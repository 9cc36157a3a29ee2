# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: firewall_requirements
short_description: Refuse invalid networks
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Returns requirements for M(rigwright.workstation.require) on the networks that are allowed to reach a role's service. A network that
    P(rigwright.workstation.firewall_rules#filter) cannot use is refused before anything changes, with the name of its variable.
options:
  _input:
    description: "Networks by the name of their variable, such as C({samba_networks: [192.168.1.0/24]})."
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Refuse a name, and a network with host bits
  rigwright.workstation.require:
    that: "{{ {'samba_networks': samba_networks} | rigwright.workstation.firewall_requirements }}"
"""

RETURN = r"""
_value:
  description: One requirement for each variable, met or not.
  type: list
  elements: dict
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.rules import parse_networks


def firewall_requirements(networks: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Return a requirement for each variable: its entries are networks."""
    return [
        {
            "ok": not (problem := _problem(named)),
            "variable": variable,
            "problem": f"is not right: {problem}",
            "remedy": "list networks in CIDR notation, or addresses; an empty list is this machine alone",
        }
        for variable, named in networks.items()
    ]


def _problem(networks: Sequence[str]) -> str:
    try:
        parse_networks(networks)
    except ValueError as error:
        return str(error)
    return ""


class FilterModule:
    """Filters of this collection."""

    def filters(self) -> dict[str, Any]:
        return {"firewall_requirements": firewall_requirements}

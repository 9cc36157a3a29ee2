# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: port_requirements
short_description: Refuse ports that a service could not listen on
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Returns requirements for M(rigwright.workstation.require) on the ports of a role's service. A port must be valid, be requested once,
    and not be in use by another program.
  - The service's own listeners are no obstacle, so that the second run passes.
positional: _input, listeners, unit
options:
  _input:
    description: "Ports by the name of their variable, such as C({frp_server_bind_port: 7000}). The value may be a list."
    type: dict
    required: true
  listeners:
    description: Listeners of the host, C(ansible_facts['rigwright']['listeners']) of M(rigwright.workstation.host_facts).
    type: list
    elements: dict
    required: true
  unit:
    description: The systemd unit of the service.
    type: str
    required: true
  protocol:
    description: The protocol of the ports.
    type: str
    choices: [tcp, udp]
    default: tcp
"""

EXAMPLES = r"""
- name: Refuse a port of another program
  rigwright.workstation.require:
    that: "{{ {'web_port': 8080} | rigwright.workstation.port_requirements(ansible_facts['rigwright']['listeners'], 'web.service') }}"
"""

RETURN = r"""
_value:
  description: Three requirements for each variable, met or not.
  type: list
  elements: dict
"""

from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._system.ports import port_requirements


class FilterModule:
    """Filters of this collection."""

    def filters(self) -> dict[str, Any]:
        return {"port_requirements": port_requirements}

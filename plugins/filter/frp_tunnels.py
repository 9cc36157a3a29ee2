# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: frp_tunnels
short_description: The proxies and visitors of a frp client
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Turns the services and visitors of the role P(rigwright.workstation.frp_client#role) into what C(frpc) reads.
  - A service becomes a C(stcp) proxy, which only visitors with the secret reach, or a C(tcp) proxy when it names a C(remote_port).
positional: _input, visitors
options:
  _input:
    description: The services, as in C(frp_client_services).
    type: list
    elements: dict
    required: true
  visitors:
    description: The visitors, as in C(frp_client_visitors).
    type: list
    elements: dict
    required: true
  secret_key:
    description: Secret of services and visitors that name none.
    type: str
    default: ""
  allow_users:
    description: Clients that may use the services that name none.
    type: list
    elements: str
    default: ["*"]
"""

EXAMPLES = r"""
- name: Show what frpc will read
  ansible.builtin.debug:
    msg: "{{ [{'name': 'web', 'local_port': 8080}] | rigwright.workstation.frp_tunnels([], secret_key='sixteen letters!') }}"
"""

RETURN = r"""
_value:
  description: C(proxies) and C(visitors) in frp's own keys.
  type: dict
"""

from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._frp.tunnels import tunnels


class FilterModule:
    """Filters of this collection."""

    def filters(self) -> dict[str, Any]:
        return {"frp_tunnels": tunnels}

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: frp_listening
short_description: Where a frp server listens
version_added: 0.2.0
author: The Rigwright engineers (@rigwright)
description:
  - Reads from the options of C(frps) whether it binds a port below 1024, and which ports a firewall has to open.
  - Ports on loopback and the dashboard are not opened.
positional: _input
options:
  _input:
    description: The options of C(frps), as in C(frps.toml).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what the firewall opens
  ansible.builtin.debug:
    msg: "{{ ({'bindPort': 7000, 'kcpBindPort': 7000} | rigwright.workstation.frp_listening).opened }}"
"""

RETURN = r"""
_value:
  description: C(privileged), and C(opened), a list of C(protocol) and C(port) as P(rigwright.workstation.firewall_rules#filter) takes it.
  type: dict
"""

from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._frp.server_ports import listening


class FilterModule:
    """Filters of this collection."""

    def filters(self) -> dict[str, Any]:
        return {"frp_listening": listening}

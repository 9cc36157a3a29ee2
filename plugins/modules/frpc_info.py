#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: frpc_info
short_description: Read the proxies of a running frpc, and check its visitors
version_added: 0.1.0
author: The Rigwright engineers (@rigwright)
description:
  - Reads the state of each proxy from the interface of C(frpc).
  - Opens a connection to each visitor's port, as its user would. C(frpc) accepts it in any case and closes it again when the other
    client does not offer the service, has another secret, or its service does not answer. A connection on which the service
    speaks, or that stays open, has reached the other end.
  - Some services speak first (SSH). If a service has sent nothing for two seconds, the module tries HTTP, RDP and SMB on further
    connections.
  - If a check fails, the module searches the journal of the unit for the reason.
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  port:
    description: Port of the interface (C(webServer.port)) on loopback.
    type: int
    required: true
  user:
    description: User name of the interface.
    type: str
    required: true
  password:
    description: Password of the interface.
    type: str
    required: true
  unit:
    description: The systemd unit that runs C(frpc).
    type: str
    default: frpc.service
  proxies:
    description: Names of the proxies that are expected.
    type: list
    elements: str
    default: []
  visitors:
    description: "The visitors to try, and where each listens, as in C({tower-ssh: 127.0.0.1:6022})."
    type: dict
    default: {}
  timeout:
    description: Seconds to wait for proxies and visitors that were just configured.
    type: float
    default: 10
  silence:
    description:
      - Seconds after which an open connection counts as one to the other end, although no data arrived.
      - The default is longer than the ten seconds that C(frpc) gives the server to answer, and the server the other client.
    type: float
    default: 12
"""

EXAMPLES = r"""
- name: Ask whether the laptop reaches tower
  rigwright.workstation.frpc_info:
    port: 7400
    user: admin
    password: "{{ vault_frpc_password }}"
    visitors:
      tower-ssh: 127.0.0.1:6022
  register: __frpc
"""

RETURN = r"""
error:
  description: What keeps C(frpc) as a whole from working; empty when nothing does.
  returned: always
  type: str
  sample: "no login at the server: token in login doesn't match token from configuration"
proxies:
  description: For each of O(proxies) an empty text when the server accepted it, or else what keeps it from running.
  returned: always
  type: dict
  sample: {ssh: "", web: port not allowed}
visitors:
  description: For each of O(visitors) an empty text when it reached the other end, or else why not.
  returned: always
  type: dict
  sample: {tower-ssh: "", tower-shh: "custom listener for [tower.shh] doesn't exist"}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._system.frpc import run


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "port": {"type": "int", "required": True},
            "user": {"type": "str", "required": True},
            "password": {"type": "str", "required": True, "no_log": True},
            "unit": {"type": "str", "default": "frpc.service"},
            "proxies": {"type": "list", "elements": "str", "default": []},
            "visitors": {"type": "dict", "default": {}},
            "timeout": {"type": "float", "default": 10},
            "silence": {"type": "float", "default": 12},
        },
        supports_check_mode=True,
    )
    run(module)


if __name__ == "__main__":
    main()

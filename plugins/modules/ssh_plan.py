#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_plan
short_description: Plan the configuration of an ssh server without lockouts
description:
  - Reads the users who can log in and the ports in use, and tries the requested configuration on a copy. Returns the plan for
    M(rigwright.workstation.require), M(rigwright.workstation.config_files) and M(rigwright.workstation.systemd_units).
    Changes nothing except for C(/run/sshd), an empty directory that C(sshd -T) needs and that the service creates when it starts.
  - C(sshd -T) prints the effective configuration. Every setting must have exactly the requested values. This applies to a user of
    each kind that C(Match) blocks distinguish, and to each address in them.
  - Keys are checked by the rules of sshd. The file must pass C(StrictModes), and sshd must accept the type and length.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
  - rigwright.workstation.fail2ban
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details:
      - Nothing is ever changed.
options:
  state:
    description: V(present) plans the requested configuration, and V(absent) the restored one.
    type: str
    choices: [present, absent]
    default: present
  proof:
    description:
      - What to verify. V(none) checks the planned configuration.
      - V(open) is for the time after the wanted ports have been opened. They must answer within a few seconds before others are closed.
      - V(all) is for the end. It checks the configuration in force, and no unwanted port is allowed to be open.
    type: str
    choices: [none, open, all]
    default: none
  ports:
    description: Ports on which sshd listens.
    type: list
    elements: int
    default: [22]
  listen_addresses:
    description: IP addresses of the host on which sshd listens. Empty means all.
    type: list
    elements: str
    default: []
  passwords:
    description:
      - Whether sshd refuses passwords. V(auto) refuses them from the time on when a user who can become root has a key that sshd
        accepts.
    type: str
    choices: [auto, allowed, refused]
    default: auto
  permit_root_login:
    description: C(PermitRootLogin).
    type: str
    choices: ["no", prohibit-password]
    default: "no"
  authorized_keys:
    description: Public keys by user, for files of root.
    type: list
    elements: dict
    default: []
    suboptions:
      user:
        description: User name.
        type: str
        required: true
      keys:
        description: The keys, each a line of an authorized_keys file.
        type: list
        elements: str
        required: true
  allow_groups:
    description: The only groups that are allowed to log in. Empty means all users.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Group name.
        type: str
        required: true
      members:
        description: Users that the role adds to the group.
        type: list
        elements: str
        default: []
  allow_tcp_forwarding:
    description: C(AllowTcpForwarding), where V(all) is sshd's C(yes).
    type: str
    choices: [local, remote, all, "no"]
    default: local
  allow_agent_forwarding:
    description: C(AllowAgentForwarding).
    type: bool
    default: false
  x11_forwarding:
    description: C(X11Forwarding).
    type: bool
    default: false
  max_auth_tries:
    description: C(MaxAuthTries).
    type: int
    default: 4
  client_alive_interval:
    description: C(ClientAliveInterval), in seconds.
    type: int
    default: 120
  client_alive_count_max:
    description: C(ClientAliveCountMax).
    type: int
    default: 3
  log_level:
    description: C(LogLevel).
    type: str
    default: VERBOSE
  extra_options:
    description: Further options of sshd_config(5) by name. A list repeats the option.
    type: dict
    default: {}
notes:
  - Run it as root. The module reads keys and password hashes, but returns only the keys of O(authorized_keys).
  - The module does not know keys from C(AuthorizedKeysCommand) and certificates. A user who has only those counts as one without a key.
seealso:
  - module: rigwright.workstation.config_files
  - module: rigwright.workstation.mirrors_plan
"""

EXAMPLES = r"""
- name: Plan a sshd on another port
  rigwright.workstation.ssh_plan:
    ports: [2222]
    passwords: refused
  register: plan

- name: Refuse a lockout
  rigwright.workstation.require:
    that: "{{ plan.requirements }}"
"""

RETURN = r"""
installed:
  description: Whether sshd is installed. If not, the plan is for its defaults.
  returned: always
  type: bool
settings:
  description: The lines of the drop-in for sshd.
  returned: always
  type: list
  elements: str
  sample: [PermitRootLogin no, Port 2222]
files:
  description: The other files, as M(rigwright.workstation.config_files) takes them.
  returned: always
  type: list
  elements: dict
  sample: [{path: /etc/ssh/authorized_keys.d/alice, content: "ssh-ed25519 AAAA... alice@laptop\n"}]
directories:
  description: The directories that the files need.
  returned: always
  type: list
  elements: dict
  sample: [{path: /etc/ssh/authorized_keys.d}]
units:
  description: The units of sshd, as M(rigwright.workstation.systemd_units) takes them.
  returned: always
  type: list
  elements: dict
  sample: [{name: ssh.service, enabled: true, restart_on: [/etc/ssh/sshd_config, /etc/ssh/sshd_config.d]}]
socket_active:
  description: Whether systemd holds the ports and starts sshd on demand.
  returned: always
  type: bool
listen_streams:
  description: The values of C(ListenStream) for C(ssh.socket).
  returned: always
  type: list
  elements: str
  sample: ["2222"]
door:
  description: An address at which sshd answers on the host itself.
  returned: always
  type: str
  sample: 127.0.0.1
fail2ban_idle:
  description: Whether fail2ban neither runs nor starts at boot, or is not installed.
  returned: always
  type: bool
ports_open:
  description: The ports on which sshd listens after the change.
  returned: always
  type: list
  elements: int
  sample: [2222, 22]
ports_to_close:
  description: The unwanted ports on which sshd listens now, except for the one that Ansible is connected to.
  returned: always
  type: list
  elements: int
  sample: [22]
passwords_refused:
  description: Whether sshd refuses passwords.
  returned: always
  type: bool
requirements:
  description: The problems of the request, as M(rigwright.workstation.require) takes them.
  returned: always
  type: list
  elements: dict
  sample: [{ok: false, variable: ssh_ports, problem: "names a port on which another program listens: 2222 python3", remedy: "choose ..."}]
findings:
  description: What is left to do or was verified, as M(rigwright.workstation.finding) takes it.
  returned: always
  type: list
  elements: dict
  sample: [{id: ssh.ports, status: pass, evidence: sshd listens on 2222, remedy: ""}]
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.run import Planner
from ansible_collections.rigwright.workstation.plugins.module_utils._system import fail2ban


def main() -> None:
    switch = {"type": "bool", "default": False}
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "proof": {"type": "str", "choices": ["none", "open", "all"], "default": "none"},
            "ports": {"type": "list", "elements": "int", "default": [22]},
            "listen_addresses": {"type": "list", "elements": "str", "default": []},
            "passwords": {"type": "str", "choices": ["auto", "allowed", "refused"], "default": "auto"},
            "permit_root_login": {"type": "str", "choices": ["no", "prohibit-password"], "default": "no"},
            "authorized_keys": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "no_log": False,
                "options": {
                    "user": {"type": "str", "required": True},
                    "keys": {"type": "list", "elements": "str", "required": True, "no_log": False},
                },
            },
            "allow_groups": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "members": {"type": "list", "elements": "str", "default": []},
                },
            },
            "allow_tcp_forwarding": {"type": "str", "choices": ["local", "remote", "all", "no"], "default": "local"},
            "allow_agent_forwarding": switch,
            "x11_forwarding": switch,
            "max_auth_tries": {"type": "int", "default": 4},
            "client_alive_interval": {"type": "int", "default": 120},
            "client_alive_count_max": {"type": "int", "default": 3},
            "log_level": {"type": "str", "default": "VERBOSE"},
            "extra_options": {"type": "dict", "default": {}},
            **fail2ban.OPTIONS,
        },
        supports_check_mode=True,
    )
    if os.geteuid() != 0:
        module.fail_json(msg="ssh_plan must run as root. Set `become: true`.")
    module.exit_json(changed=False, **Planner(module).run())


if __name__ == "__main__":
    main()

#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: xrdp_plan
short_description: Plan a remote desktop without ending sessions
description:
  - Reads the desktop of the host, the users who are allowed to log in, the open sessions, and xrdp's files as its package installed
    them. Returns the plan for M(rigwright.workstation.require), M(rigwright.workstation.config_files),
    M(rigwright.workstation.group_members) and M(rigwright.workstation.systemd_units). Changes nothing.
  - The plan sets the requested options in the files of the package, so that each version of xrdp keeps its own options. It removes
    session types in which a user names the host that xrdp connects to.
  - A restart of xrdp ends every session, because its units are bound to each other. The plan says whether a restart is allowed now, and
    changes everything else without one.
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
    description: V(present) plans the requested remote desktop, and V(absent) its removal.
    type: str
    choices: [present, absent]
    default: present
  proof:
    description: Whether to probe the server, as a client before the login, for its protocols and its certificate.
    type: bool
    default: false
  backend:
    description: The RDP server. V(auto) is V(gnome) for a GNOME without X11 session, and V(xrdp) otherwise.
    type: str
    choices: [auto, xrdp, gnome]
    default: auto
  desktop:
    description:
      - The desktop. V(host) is the host's own one on X11. V(auto) is V(host) where the host has one, or its GNOME, or V(xfce).
    type: str
    default: auto
  desktops:
    description: The known desktops by name. RV(missing) names the C(packages) of the chosen one, RV(command) is its C(command).
    type: dict
    default: {}
  gnome_x11:
    description: Whether GNOME has an X11 session on this release, for hosts without GNOME.
    type: bool
    default: true
  gnome_environment:
    description: Variables that sessions of GNOME need.
    type: dict
    default: {}
  packages:
    description: Packages that xrdp needs here.
    type: list
    elements: str
    default: []
  gnome_packages:
    description: Packages that GNOME's own remote desktop needs here.
    type: list
    elements: str
    default: []
  gnome_login:
    description: Whether GNOME of this release has a remote login with a password from standard input, which exists since GNOME 47.
    type: bool
    default: true
  machine_user:
    description: User of the credential that GNOME needs before its login screen.
    type: str
    default: workstation
  machine_password:
    description: Password of that credential.
    type: str
    default: ""
  port:
    description: TCP port.
    type: int
    default: 3389
  networks:
    description: Allowed client networks. Empty means localhost only.
    type: list
    elements: str
    default: []
  users:
    description: Users who are allowed to log in.
    type: list
    elements: str
    default: []
  allowed_group:
    description: The group that is allowed to log in.
    type: str
    default: xrdp-users
  tls_cert:
    description: Path of an own certificate.
    type: str
    default: ""
  tls_key:
    description: Path of its key.
    type: str
    default: ""
  tls_cert_content:
    description: An own certificate in PEM format.
    type: str
    default: ""
  tls_key_content:
    description: Its key in PEM format. The module only compares it with the certificate.
    type: str
    default: ""
  tls_names:
    description: Names and addresses of the host for clients.
    type: list
    elements: str
    default: []
  max_sessions:
    description: C(MaxSessions).
    type: int
    default: 10
  max_login_retry:
    description: C(MaxLoginRetry).
    type: int
    default: 4
  kill_disconnected:
    description: C(KillDisconnected).
    type: bool
    default: false
  disconnected_timeout:
    description: C(DisconnectedTimeLimit), in seconds. V(0) is never.
    type: int
    default: 0
  idle_timeout:
    description: C(IdleTimeLimit), in seconds. V(0) is never.
    type: int
    default: 0
  clipboard_in:
    description: Whether users can paste from the client to the host.
    type: bool
    default: true
  clipboard_out:
    description: Whether users can paste from the host to the client.
    type: bool
    default: true
  drive_redirection:
    description: Whether the client's drives appear in the session.
    type: bool
    default: false
  sound:
    description: Whether sound is sent to the client.
    type: bool
    default: true
  session_env:
    description: Variables of every session.
    type: dict
    default: {}
  ini_overrides:
    description: Further options of C(xrdp.ini), by section and name.
    type: dict
    default: {}
  sesman_overrides:
    description: Further options of C(sesman.ini), by section and name.
    type: dict
    default: {}
  allow_disruption:
    description: Whether a change is allowed to end sessions.
    type: bool
    default: false
notes:
  - Run it as root. The module reads whether users have a password, and does not return hashes.
seealso:
  - module: rigwright.workstation.config_files
  - module: rigwright.workstation.ssh_plan
"""

EXAMPLES = r"""
- name: Plan a remote desktop for the local network
  rigwright.workstation.xrdp_plan:
    networks: [192.168.1.0/24]
    users: [alice]
    tls_names: [workstation.example.org]
    packages: [xrdp, xorgxrdp]
  register: plan

- name: Refuse an invalid request
  rigwright.workstation.require:
    that: "{{ plan.requirements }}"
"""

RETURN = r"""
managed:
  description: Whether an earlier run has written files.
  returned: always
  type: bool
backend:
  description: The RDP server.
  returned: always
  type: str
  sample: xrdp
desktop:
  description: The desktop.
  returned: always
  type: str
  sample: xfce
command:
  description: The command that starts the desktop. Empty for the host's own one.
  returned: always
  type: str
  sample: startxfce4
missing:
  description: The missing packages.
  returned: always
  type: list
  elements: str
  sample: [xrdp, xorgxrdp]
files:
  description: The files without a template, as M(rigwright.workstation.config_files) takes them.
  returned: always
  type: list
  elements: dict
  sample: [{path: /etc/xrdp/xrdp.ini, content: "[Globals]\nport=tcp://127.0.0.1:3389\n"}]
listener:
  description: The options that xrdp reads only when it starts.
  returned: always
  type: list
  elements: str
  sample: ["port=tcp://127.0.0.1:3389"]
certificate:
  description: Paths of the certificate and of its key.
  returned: always
  type: list
  elements: str
  sample: [/etc/xrdp/tls/server.crt, /etc/xrdp/tls/server.key]
groups:
  description: The groups to change, as M(rigwright.workstation.group_members) takes them. Empty when the group is right.
  returned: always
  type: list
  elements: dict
  sample: [{name: xrdp-users, system: true, members: [alice], append: false}]
units:
  description: xrdp's units, as M(rigwright.workstation.systemd_units) takes them.
  returned: always
  type: list
  elements: dict
  sample: [{name: xrdp.service, enabled: true, restart_on: [/etc/systemd/system/xrdp.service.d/rigwright.conf], may_restart: true}]
sessions:
  description: Users whose desktop a restart would end.
  returned: always
  type: list
  elements: str
  sample: [alice]
gnome_configured:
  description: Whether GNOME's remote login has the requested settings.
  returned: always
  type: bool
gnome_managed:
  description: Whether an earlier run has configured GNOME's remote login.
  returned: always
  type: bool
shared_directory:
  description: Whether the packaged units share a runtime directory, whose owner each of them changes.
  returned: always
  type: bool
auth_log:
  description: Whether the host has the log file that fail2ban's own jail for ssh reads.
  returned: always
  type: bool
fail2ban_idle:
  description: Whether fail2ban neither runs nor starts at boot, or is not installed.
  returned: always
  type: bool
requirements:
  description: The problems of the request, as M(rigwright.workstation.require) takes them.
  returned: always
  type: list
  elements: dict
  sample: [{ok: false, variable: xrdp_users, problem: "names no user of this host: alcie", remedy: "create them first"}]
findings:
  description: What is left to do or was verified, as M(rigwright.workstation.finding) takes it.
  returned: always
  type: list
  elements: dict
  sample: [{id: xrdp.tls, status: pass, evidence: "a client with TLS: TLS", remedy: ""}]
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._system import fail2ban
from ansible_collections.rigwright.workstation.plugins.module_utils._xrdp.run import run


def main() -> None:
    no, yes = {"type": "bool", "default": False}, {"type": "bool", "default": True}
    text, texts_, table = (
        {"type": "str", "default": ""},
        {"type": "list", "elements": "str", "default": []},
        {"type": "dict", "default": {}},
    )
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "proof": no,
            "backend": {"type": "str", "choices": ["auto", "xrdp", "gnome"], "default": "auto"},
            "desktop": {"type": "str", "default": "auto"},
            "desktops": table,
            "gnome_x11": yes,
            "gnome_environment": table,
            "packages": texts_,
            "gnome_packages": texts_,
            "gnome_login": yes,
            "machine_user": {"type": "str", "default": "workstation"},
            "machine_password": {**text, "no_log": True},
            "port": {"type": "int", "default": 3389},
            "networks": texts_,
            "users": texts_,
            "allowed_group": {"type": "str", "default": "xrdp-users"},
            "tls_cert": text,
            "tls_key": {**text, "no_log": False},
            "tls_cert_content": text,
            "tls_key_content": {**text, "no_log": True},
            "tls_names": texts_,
            "max_sessions": {"type": "int", "default": 10},
            "max_login_retry": {"type": "int", "default": 4},
            "kill_disconnected": no,
            "disconnected_timeout": {"type": "int", "default": 0},
            "idle_timeout": {"type": "int", "default": 0},
            "clipboard_in": yes,
            "clipboard_out": yes,
            "drive_redirection": no,
            "sound": yes,
            "session_env": table,
            "ini_overrides": table,
            "sesman_overrides": table,
            "allow_disruption": no,
            **fail2ban.OPTIONS,
        },
        supports_check_mode=True,
    )
    if os.geteuid() != 0:
        module.fail_json(msg="xrdp_plan must run as root. Set `become: true`.")
    module.exit_json(changed=False, **run(module))


if __name__ == "__main__":
    main()
